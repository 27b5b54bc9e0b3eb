// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm {

/// A tokenizer.json of a Hugging Face folder, with the ids and the text that the `tokenizers` library gives: byte-level
/// and SentencePiece-style BPE, WordPiece, WordLevel and Unigram, and the steps around them that the file names.
/// Truncation and padding of the file are the caller's, as in transformers. Thread-safe once made.
class Tokenizer {
 public:
  /// Reads tokenizer.json of a folder. Throws `not_found`, `corrupt`, or `unsupported` naming the construct.
  static Tokenizer load(const std::filesystem::path& folder);
  /// The vocabulary that our training writes: id = byte, and 256 = <|endoftext|>.
  static Tokenizer bytes();

  /// Ids of a text, in which what is no UTF-8 counts as U+FFFD, as Python replaces it. Special tokens written in the text
  /// become their ids; those that the file's post-processor frames a text with are added unless `add_special_tokens` is
  /// false. Throws `invalid_argument` for a text of more than 1 GiB, or one with words that the vocabulary lacks when it
  /// has no token for such words; BPE without one leaves them out, as the library does. Throws it too if the file's steps
  /// make more than 64 KiB plus 32 bytes for each byte of the text.
  std::vector<std::int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  /// encode() with special tokens, for models that take at most `max_tokens`: of the text's own ids those at the end are cut
  /// off. `invalid_argument` also when the special tokens alone are more.
  std::vector<std::int64_t> encode_up_to(std::string_view text, std::int64_t max_tokens) const;
  /// The bytes that one id adds to a text that has begun, for output token by token; a special token adds nothing.
  /// Not always whole UTF-8 characters. Ids without a token add nothing either: models have rows for more ids than their
  /// tokenizer defines. Throws `invalid_argument` for a negative id, or one of more than 32 bits.
  std::string token_bytes(std::int64_t id) const;
  /// Return the text of all ids. Ids without a token are left out. Throws as token_bytes() does.
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
