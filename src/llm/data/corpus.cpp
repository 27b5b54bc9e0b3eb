#include "llm/data/corpus.h"

#include <c10/core/Allocator.h>
#include <dlfcn.h>

#include <algorithm>
#include <unordered_set>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/fnv1a.h"
#include "llm/data/files.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMinDocuments = 20;

bool is_header(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".hpp" || extension == ".cuh" || extension == ".hxx";
}

/// Most of LibTorch's headers are generated: about 7,000 files that differ only in a few names.
bool is_generated(const fs::path& path, const std::string& text) {
  const std::string name = path.generic_string();
  const std::string_view head = std::string_view(text).substr(0, 1024);
  const auto says = [&](std::string_view words) {
    return head.find(words) != std::string_view::npos;
  };
  return name.find("enerated") != std::string::npos || name == "ATen/RegistrationDeclarations.h" ||
         says("@generated") || says("enerated by");
}

/// Extends a hash by a document and a zero byte.
std::uint64_t extend(std::uint64_t hash, const std::string& text) {
  return fnv1a(fnv1a(hash, text), std::uint64_t{0});
}

/// Splits documents into about `pieces` parts of equal size, at the ends of lines where possible.
std::vector<std::string> cut(const std::vector<std::string>& documents, std::size_t pieces,
                             std::size_t total) {
  const std::size_t length = std::max<std::size_t>(total / pieces, 1);
  std::vector<std::string> out;
  for (const std::string& document : documents) {
    for (std::size_t begin = 0; begin < document.size();) {
      std::size_t end = std::min(begin + length, document.size());
      const std::size_t line = document.find('\n', end);
      if (line != std::string::npos && line - end < length / 4) end = line + 1;
      if (document.size() - end < length / 4) end = document.size();
      out.push_back(document.substr(begin, end - begin));
      begin = end;
    }
  }
  return out;
}

void append(std::vector<std::uint16_t>& tokens, const std::string& document) {
  for (const char c : document) tokens.push_back(static_cast<unsigned char>(c));
  tokens.push_back(kEndOfText);
}

/// `left_out` marks documents that are not used. They still count when every tenth document is
/// selected. Empty: all documents are used.
Corpus make_corpus(std::vector<std::string> documents, std::int64_t context,
                   const std::vector<bool>& left_out = {}) {
  Corpus corpus;
  std::size_t total = 0;
  corpus.fingerprint = kFnv1aStart;
  const auto used = [&](std::size_t i) { return left_out.empty() || !left_out[i]; };
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!used(i)) continue;
    total += documents[i].size();
    corpus.fingerprint = extend(corpus.fingerprint, documents[i]);
  }
  if (left_out.empty() && documents.size() < kMinDocuments)
    documents = cut(documents, kMinDocuments, total);
  corpus.train.reserve(total + documents.size());
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!used(i)) continue;
    const bool held_out = i % 10 == 5;
    append(held_out ? corpus.held_out : corpus.train, documents[i]);
    (held_out ? corpus.held_out_documents : corpus.train_documents) += 1;
  }
  const auto needed = static_cast<std::size_t>(context) + 1;
  if (corpus.train.size() < needed || corpus.held_out.size() < needed) {
    throw Error(ErrorCode::invalid_argument, "load_data",
                {.what = "too little text",
                 .got = std::to_string(total) + " bytes, of which a tenth is held out",
                 .want = "at least " + std::to_string(20 * needed) + " bytes",
                 .hint = "pass more --data or a shorter --context"});
  }
  return corpus;
}

}  // namespace

Corpus load_corpus(const std::vector<fs::path>& data, std::int64_t context) {
  std::vector<std::string> documents;
  std::string source;
  for (const fs::path& path : data) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      throw Error(error && error != std::errc::no_such_file_or_directory ? ErrorCode::io
                                                                         : ErrorCode::not_found,
                  "load_data",
                  {.what = "cannot read the data file " + path.string() + ": " +
                           (error ? error.message() : "no such file")});
    }
    if (fs::is_character_file(status) || fs::is_block_file(status) || fs::is_socket(status)) {
      throw Error(ErrorCode::invalid_argument, "load_data",
                  {.what = "cannot read the data file " + path.string(),
                   .got = "a device or a socket",
                   .want = "a file, a folder or a pipe"});
    }
    source += (source.empty() ? "" : ", ") + path.string();
    if (!fs::is_directory(status)) {
      documents.push_back(read_input(path, kMaxData));
      continue;
    }
    for (const fs::path& file : files_below(path)) {
      if (auto text = read_text(file)) documents.push_back(std::move(*text));
    }
  }
  const auto files = static_cast<std::int64_t>(documents.size());
  Corpus corpus = make_corpus(std::move(documents), context);
  corpus.files = files;
  corpus.source = source;
  return corpus;
}

fs::path default_data() {
  std::vector<fs::path> candidates;
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&c10::GetAllocator), &info) != 0 && info.dli_fname) {
    candidates.push_back(fs::weakly_canonical(info.dli_fname).parent_path().parent_path() /
                         "include");
  }
  candidates.emplace_back(ANYACCEL_TORCH_INCLUDE);
  for (const fs::path& folder : candidates) {
    std::error_code ignored;
    if (fs::is_directory(folder / "ATen", ignored)) return folder;
  }
  throw Error(ErrorCode::not_found, "load_data",
              {.what = "cannot find LibTorch's C++ headers, the default training text, in " +
                       candidates.front().string(),
               .hint = "pass text files with --data"});
}

Corpus load_default_corpus(std::int64_t context, Headers headers) {
  const fs::path folder = default_data();
  std::vector<std::string> documents;
  std::vector<bool> left_out;
  std::unordered_set<std::string> seen;
  for (const fs::path& file : files_below(folder, is_header)) {
    documents.push_back(read_file(file));
    if (headers == Headers::all) continue;
    left_out.push_back(is_generated(file.lexically_relative(folder), documents.back()) ||
                       !seen.insert(documents.back()).second);
  }
  const auto files = static_cast<std::int64_t>(documents.size()) -
                     std::count(left_out.begin(), left_out.end(), true);
  Corpus corpus = make_corpus(std::move(documents), context, left_out);
  corpus.files = files;
  corpus.source = "C++ headers in " + folder.string();
  return corpus;
}

}  // namespace anyaccel::llm
