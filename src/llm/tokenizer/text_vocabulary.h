// The vocabulary of a model that is trained here: bytes, the end of a document, and merges learned from the text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llm/tokenizer/learn_merges.h"

namespace anyaccel::llm {

class TokenModel;

/// Turns streams of bytes, in which kEndOfText ends each document, into streams of tokens. Ids 0 to 255 are bytes, 256 is
/// kEndOfText, and merge i is 257 + i. Gives the ids that Tokenizer::encode() gives with json().
class TextVocabulary {
 public:
  /// Learns a vocabulary of at most `size` tokens from a stream. A short text gives a smaller one: at most one merge per 4 KiB,
  /// because a token that hardly occurs cannot be learned.
  static TextVocabulary learn(std::span<const std::uint16_t> stream, std::int64_t size);
  /// Reads the tokenizer.json of a checkpoint that our training wrote; "" is the vocabulary of bytes. Throws `corrupt` or
  /// `unsupported` naming `source`.
  static TextVocabulary read(const std::string& json, const std::string& source);

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(lengths_.size()); }
  std::vector<std::uint16_t> encode(std::span<const std::uint16_t> stream) const;
  /// Bytes of each token; 1 for kEndOfText.
  const std::vector<std::uint32_t>& lengths() const noexcept { return lengths_; }
  /// The text of tokenizer.json.
  const std::string& json() const noexcept { return json_; }

 private:
  explicit TextVocabulary(const Merges& merges);

  std::string json_;
  std::vector<std::uint32_t> lengths_;
  std::shared_ptr<const TokenModel> model_;  ///< null without merges
};

}  // namespace anyaccel::llm
