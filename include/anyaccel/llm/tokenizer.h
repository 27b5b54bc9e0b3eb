// Tokenizers: conversion of text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// The tokenizer defined by the tokenizer.json in a Hugging Face folder. It produces the same ids
/// and text as Hugging Face's `tokenizers` library: byte-level and SentencePiece-style BPE,
/// WordPiece, WordLevel and Unigram, and the processing steps that the file specifies. The file's
/// truncation and padding settings are ignored, as in transformers. Thread-safe after construction.
///
///     const auto tokenizer = Tokenizer::load(folder);
///     const std::vector<std::int64_t> ids = tokenizer.encode("Hello, world!");
///     const std::string text = tokenizer.decode(ids);
class ANYACCEL_API Tokenizer {
 public:
  /// Read a folder's tokenizer.json. Throws `not_found`, `corrupt`, or `unsupported` with the name
  /// of the construct.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& folder);
  /// Return the byte tokenizer that training uses: ids 0 to 255 are bytes, and 256 is
  /// <|endoftext|>.
  static Tokenizer bytes();

  /// Return the ids of a text. Invalid UTF-8 is replaced by U+FFFD, as in Python. Special tokens
  /// that occur in the text are mapped to their ids. The special tokens of the file's
  /// post-processor are added unless `add_special_tokens` is false.
  ///
  /// Throws `invalid_argument` for a text of more than 1 GiB, for a text that the tokenizer's steps
  /// expand to more than 64 KiB plus 32 bytes per input byte, and for unknown words if the
  /// vocabulary has no unknown token. BPE without an unknown token drops unknown characters, as
  /// `tokenizers` does.
  std::vector<std::int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  /// Return the ids of a text with special tokens, truncated to `max_tokens` by dropping the last
  /// ids of the text itself. Throws the same errors as encode(), and `invalid_argument` if the
  /// special tokens alone exceed the limit.
  std::vector<std::int64_t> encode_up_to(std::string_view text, std::int64_t max_tokens) const;
  /// Return the bytes that an id appends to a text, for streaming output. They can end in the
  /// middle of a UTF-8 character. Special tokens append nothing. Ids without a token also append
  /// nothing; they exist because a model's embedding may have more rows than its tokenizer has
  /// tokens. Throws `invalid_argument` for a negative id, or one that does not fit in 32 bits.
  std::string token_bytes(std::int64_t id) const;
  /// Return the text of all ids, skipping ids without a token. Throws the same errors as
  /// token_bytes().
  std::string decode(const std::vector<std::int64_t>& ids, bool skip_special_tokens = true) const;
  /// Number of tokens in the vocabulary, including added ones.
  std::int64_t size() const noexcept;

  /// Text of a tokenizer.json that describes bytes().
  static std::string bytes_json();
  /// Text of the matching tokenizer_config.json, with a maximum sequence length of `context`
  /// tokens.
  static std::string bytes_config_json(std::int64_t context);

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace anyaccel::llm
