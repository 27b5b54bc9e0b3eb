// Vocabulary for the models that we train: bytes, an end-of-text token, and merges learned from the
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "text/tokenizer/learn_merges.h"

namespace anyaccel::llm {

class TokenModel;

/// Converts streams of bytes, in which kEndOfText ends each document, to streams of tokens. Ids 0
/// to 255 are bytes, 256 is kEndOfText, and merge i is 257 + i. The ids are the same as those of
/// Tokenizer::encode() with json().
class ANYACCEL_API TextVocabulary {
 public:
  /// Learns a vocabulary of at most `size` tokens from a stream. The number of merges is limited to
  /// one per KiB of text after the first 64 KiB, because a model cannot learn tokens that rarely
  /// occur.
  static TextVocabulary learn(std::span<const std::uint16_t> stream, std::int64_t size);
  /// Reads a tokenizer.json that a training run wrote; "" means the byte vocabulary. Throws
  /// `corrupt` or `unsupported`, naming `source`.
  static TextVocabulary read(const std::string& json, const std::string& source);

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(lengths_.size()); }
  std::vector<std::uint16_t> encode(std::span<const std::uint16_t> stream) const;
  /// Number of bytes of each token; 1 for kEndOfText.
  const std::vector<std::uint32_t>& lengths() const noexcept { return lengths_; }
  /// The text of tokenizer.json.
  const std::string& json() const noexcept { return json_; }

 private:
  explicit TextVocabulary(const Merges& merges);

  std::string json_;
  std::vector<std::uint32_t> lengths_;
  std::shared_ptr<const TokenModel> model_;  ///< null if there are no merges
};

}  // namespace anyaccel::llm
