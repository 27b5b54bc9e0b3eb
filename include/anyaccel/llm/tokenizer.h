// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// A tokenizer.json of a Hugging Face folder, with the ids and the text that the `tokenizers`
/// library gives: byte-level and SentencePiece-style BPE, WordPiece, WordLevel and Unigram, and the
/// steps around them that the file names. The file's truncation and padding settings are left to
/// the caller, as in transformers. Thread-safe after construction.
class ANYACCEL_API Tokenizer {
 public:
  /// Reads a folder's tokenizer.json. Throws `not_found`, `corrupt`, or `unsupported` naming the
  /// construct.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& folder);
  /// The byte vocabulary that our training writes: id = byte, and 256 = <|endoftext|>.
  static Tokenizer bytes();

  /// Returns the ids of a text. Invalid UTF-8 is replaced by U+FFFD, as in Python. Special tokens
  /// written in the text become their ids. The special tokens of the file's post-processor are
  /// added unless `add_special_tokens` is false. Throws `invalid_argument` for a text of more than
  /// 1 GiB, for a text that the tokenizer's steps expand to more than 64 KiB plus 32 bytes per
  /// byte, and for unknown words if the vocabulary has no unknown token. BPE without one drops
  /// unknown words, as the library does.
  std::vector<std::int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  /// encode() with special tokens, truncated to `max_tokens` by dropping the last ids of the text
  /// itself. Also throws `invalid_argument` if the special tokens alone exceed the limit.
  std::vector<std::int64_t> encode_up_to(std::string_view text, std::int64_t max_tokens) const;
  /// Returns the bytes that an id appends to a text, for streaming output; they may end within a
  /// UTF-8 character. Special tokens append nothing, nor do ids without a token: models may have
  /// rows for more ids than their tokenizer defines. Throws `invalid_argument` for a negative id,
  /// or one of more than 32 bits.
  std::string token_bytes(std::int64_t id) const;
  /// Returns the text of all ids, skipping ids without a token. Throws as token_bytes() does.
  std::string decode(const std::vector<std::int64_t>& ids, bool skip_special_tokens = true) const;
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
