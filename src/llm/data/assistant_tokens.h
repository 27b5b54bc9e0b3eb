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
/// Whitespace after a part's last special token is excluded, because that token ends the turn and a
/// model stops generating there.
///
/// The tokens' own text determines their positions. If a normalizer changes the text, this function
/// encodes the text up to each boundary of a part instead, and counts the tokens.
std::vector<TokenSpan> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                 const std::vector<std::int64_t>& ids,
                                 const std::vector<TextSpan>& parts);

}  // namespace anyaccel::llm
