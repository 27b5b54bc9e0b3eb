// Reads text and conversations from files and converts them to tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/llm/chat.h"
#include "anyaccel/llm/tokenizer.h"
#include "llm/data/example_store.h"

namespace anyaccel::llm {

/// Converts texts and conversations to examples. Thread-safe after construction.
class ExampleEncoder {
 public:
  /// `model`: folder with the tokenizer and, if conversations are to be encoded, the chat template.
  /// `vocab_size`: number of rows of the model's embedding. `eos`: id of the end-of-text token if
  /// the tokenizer's files do not name one; -1: none.
  ExampleEncoder(const std::filesystem::path& model, std::int64_t vocab_size, std::int64_t eos);

  struct Example {
    std::vector<std::int64_t> ids;
    std::vector<TokenSpan> learned;
  };
  /// Encodes a text with the tokenizer's special tokens. All tokens contribute to the loss.
  /// `begins`: false if the text continues another one, so that no special tokens precede it.
  /// `ends`: whether to append the end-of-text token, unless the tokenizer does.
  Example text(std::string_view text, bool begins = true, bool ends = true) const;
  /// Encodes a conversation; `variables` as for ChatTemplate::apply_for_training(). Only tokens
  /// that the assistant wrote contribute to the loss. Throws `unsupported` if the model has no chat
  /// template, and `invalid_argument` if the conversation has no text from the assistant.
  Example chat(std::string_view variables) const;

  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }

 private:
  void check(const std::vector<std::int64_t>& ids) const;

  std::filesystem::path model_;
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> chat_;
  std::int64_t vocab_size_, eos_;
};

/// Counts of texts, conversations and malformed lines.
struct DataCounts {
  std::int64_t files = 0, texts = 0, conversations = 0;
  std::int64_t bad_lines = 0;            ///< lines that were skipped
  std::vector<std::string> bad_reasons;  ///< reasons for the first few of them, with file and line
};

/// Reads files, and all files in folders in sorted order, and adds their examples to `store`. A
/// file named .jsonl or .ndjson, or whose first line is a record, contains one record per line
/// (parse_record()). Any other file is one text. It is encoded in parts of 8 MiB, cut at the ends
/// of lines.
///
/// A malformed line throws `corrupt`, naming the file and the line; with `skip_bad_lines`, it is
/// counted instead. Throws `not_found` or `io` for files that cannot be read, and
/// `invalid_argument` for files that are not text.
DataCounts read_examples(const std::vector<std::filesystem::path>& data,
                         const ExampleEncoder& encoder, bool skip_bad_lines, ExampleStore& store);

}  // namespace anyaccel::llm
