// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm {

/// Byte-level BPE as tokenizer.json of a Hugging Face folder has it (GPT-2's byte symbols). Thread-safe once made.
class Tokenizer {
 public:
  /// Reads tokenizer.json of a folder. Throws `not_found`, `corrupt`, or `unsupported` naming the construct: supported
  /// are BPE models over the ByteLevel pre-tokenizer that do not split by its regular expression (any, when the model
  /// has no merges), without normalizer.
  static Tokenizer load(const std::filesystem::path& folder);
  /// The vocabulary that our training writes: id = byte, and 256 = <|endoftext|>.
  static Tokenizer bytes();

  /// Ids of a text. Special tokens written in the text become their ids, as in transformers. Throws
  /// `invalid_argument` when the vocabulary lacks a byte of the text.
  std::vector<std::int64_t> encode(std::string_view text) const;
  /// The bytes that one id stands for; a special token gives nothing. `invalid_argument` for an unknown id.
  std::string token_bytes(std::int64_t id) const;
  /// token_bytes of all ids, in order. Bytes, not always whole UTF-8 characters.
  std::string decode(const std::vector<std::int64_t>& ids) const;
  std::int64_t size() const noexcept;

  /// tokenizer.json of `bytes()`.
  static std::string bytes_json();
  /// tokenizer_config.json to go with it, for sequences of `context` tokens.
  static std::string bytes_config_json(std::int64_t context);

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace anyaccel::llm
