// The steps and added tokens of a Tokenizer.
#pragma once

#include <memory>

#include "anyaccel/llm/tokenizer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/pipeline.h"

namespace anyaccel::llm {

struct ANYACCEL_LOCAL Tokenizer::Data {
  explicit Data(const TokenizerNode& root);

  /// All steps except the model may be null.
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const TokenDecoder> decoder;
  AddedTokens added;

  /// Appends the ids of a text without added tokens. `lead`: number of leading bytes aligned to
  /// byte 0 of the whole text. `limit`: limit for the total size of the pre-tokens, which this call
  /// reduces by the size of its pre-tokens.
  void encode_plain(std::string_view text, std::size_t lead, TextLimit& limit, TokenIds& ids) const;
  /// Returns the token's text. Returns nullopt for an id without a token, and for a special added
  /// token unless `specials` is set. Throws `invalid_argument` for an id out of range.
  std::optional<std::string> token(std::int64_t id, bool specials) const;
};

}  // namespace anyaccel::llm
