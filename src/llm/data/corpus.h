// Training text: files become byte tokens, and one tenth of the documents is held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/byte_vocabulary.h"

namespace anyaccel::llm {

/// Documents as one stream of tokens. kEndOfText follows each document.
struct Corpus {
  std::vector<std::uint16_t> train;
  std::vector<std::uint16_t> held_out;
  std::int64_t files = 0;
  std::int64_t train_documents = 0;
  std::int64_t held_out_documents = 0;
  std::string source;             ///< origin of the text, for messages
  std::uint64_t fingerprint = 0;  ///< hash of all bytes, compared when a run is resumed
};

/// Reads files, and all text files in folders and their subfolders in sorted order. Skips hidden
/// files and files that contain NUL bytes. Every tenth document is held out. If there are fewer
/// than 20 documents, they are first split into parts, so that a single file works too. Throws
/// `not_found`, `io`, or `invalid_argument` if there is too little text for `context`.
Corpus load_corpus(const std::vector<std::filesystem::path>& data, std::int64_t context);

/// Returns the folder with the C++ headers of the LibTorch in use: next to the loaded library,
/// otherwise where the build found them. Throws `not_found` with a hint to pass --data.
std::filesystem::path default_data();

/// Selects which of those headers to use. `written` excludes generated headers and copies of other
/// headers. In both cases, every tenth header is held out, counted over all headers. Therefore,
/// neither choice trains on headers that the other holds out.
enum class Headers { written, all };
Corpus load_default_corpus(std::int64_t context, Headers headers = Headers::written);

}  // namespace anyaccel::llm
