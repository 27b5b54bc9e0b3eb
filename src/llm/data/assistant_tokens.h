// Finds the tokens that cover parts of a text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "anyaccel/llm/chat.h"
#include "anyaccel/llm/tokenizer.h"
#include "llm/data/example_store.h"

namespace anyaccel::llm {

/// Returns the ranges of `ids`, the tokens of `text` without added special tokens, that cover the
/// `parts` of the text. A token that lies only partly in a part belongs to it, as in transformers.
/// Whitespace after a part's last special token, which ends a turn, does not belong to it: a model
/// stops generating before it.
///
/// The tokens' own text determines their places. If a normalizer changes the text, the text up to
/// each end of a part is encoded instead, and the tokens are counted.
std::vector<TokenSpan> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                 const std::vector<std::int64_t>& ids,
                                 const std::vector<TextSpan>& parts);

}  // namespace anyaccel::llm
