// What a tokenizer is made of.
#pragma once

#include <memory>

#include "anyaccel/llm/tokenizer.h"
#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/pipeline.h"

namespace anyaccel::llm {

struct Tokenizer::Data {
  explicit Data(const TokenizerNode& root);

  std::unique_ptr<const Normalizer> normalizer;  ///< may be null, as all but the model
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const TokenDecoder> decoder;
  AddedTokens added;

  /// Appends the ids of a text without added tokens. `first`: it is where the whole text begins.
  void encode_plain(std::string_view text, bool first, TokenIds& ids) const;
  /// The token's text; nothing for an added token that is special, unless `specials`. `invalid_argument` for no token.
  std::optional<std::string> token(std::int64_t id, bool specials) const;
};

}  // namespace anyaccel::llm
