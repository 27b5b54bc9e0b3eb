#include "build/key.h"

#include <algorithm>
#include <map>
#include <set>

#include "anyaccel/error.h"
#include "anyaccel/version.h"
#include "base/env.h"
#include "base/file.h"
#include "base/plugin/build_identity.h"
#include "build/plan.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

/// Incremented when a change to the build service itself changes the resulting binaries.
constexpr const char* kFormat = "4";

/// Returns the names in `#include "x"` and `#include <x>`, and in `#define NAME "x"`, which
/// `#include NAME` may use. Conditionals are ignored: an extra name only causes a rebuild, but a
/// missing name could lead to a wrong binary.
std::vector<std::string> included(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#', at + 1)) {
    auto place = text.find_first_not_of(" \t", at + 1);
    if (place == std::string::npos) continue;
    if (text.compare(place, 7, "include") == 0)
      place = text.find_first_not_of(" \t", place + 7);
    else if (text.compare(place, 7, "define ") == 0)
      place = text.find_first_of("\"\n", place);
    else
      continue;
    if (place == std::string::npos || (text[place] != '"' && text[place] != '<')) continue;
    const auto end = text.find_first_of("\">\n", place + 1);
    if (end != std::string::npos && text[end] != '\n')
      out.push_back(text.substr(place + 1, end - place - 1));
  }
  return out;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

/// Finds headers in the compiler's search order: next to the file, then in the op's folders, then
/// in AnyAccel's.
class Scanner {
 public:
  Scanner(const Op& op, const Paths& paths) {
    roots_ = {{"op/", real(op.folder())}};
    for (const auto& folder : source_folders(paths))
      roots_.emplace_back(folder.lexically_relative(paths.ops.parent_path()).string() + "/",
                          real(folder));
    for (const auto& folder : paths.includes) roots_.emplace_back("anyaccel/", real(folder));
    search_ = {op.source_folder()};
    for (const auto& folder : op.description.includes) search_.push_back(op.folder() / folder);
    search_.insert(search_.end(), paths.includes.begin(), paths.includes.end());
  }

  void add(const fs::path& file) {
    const auto path = real(file);
    if (files_.count(path) != 0) return;
    const auto text = try_read_file(path);
    if (!text)
      throw Error(ErrorCode::not_found, "op builders",
                  {.what = "the source " + path.string() + " does not exist"});
    files_[path] = sha256(*text);
    for (const auto& name : included(*text)) {
      std::error_code error;
      std::vector<fs::path> choices{path.parent_path() / name};
      for (const auto& folder : search_) choices.push_back(folder / name);
      const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& choice) {
        return fs::is_regular_file(choice, error);
      });
      if (found != choices.end()) add(*found);
    }
  }

  std::map<std::string, std::pair<fs::path, std::string>> result() const {
    std::map<std::string, std::pair<fs::path, std::string>> out;
    for (const auto& [path, digest] : files_) out[name_of(path)] = {path, digest};
    return out;
  }

 private:
  /// Resolves links, because in a build tree the ops folder is a symbolic link.
  static fs::path real(const fs::path& path) {
    std::error_code error;
    auto out = fs::canonical(path, error);
    return error ? path.lexically_normal() : out;
  }
  /// Returns the file's name in the key. It is the same in a build tree, an installation and a
  /// moved installation.
  std::string name_of(const fs::path& path) const {
    for (const auto& [name, root] : roots_)
      if (is_below(path, root)) return name + path.lexically_relative(root).string();
    return path.filename().string();
  }
  std::vector<std::pair<std::string, fs::path>> roots_;
  std::vector<fs::path> search_;
  std::map<fs::path, std::string> files_;
};

Scanner scan(const Op& op, const Paths& paths) {
  Scanner scanner(op, paths);
  for (const auto& source : op.description.sources)
    for (const auto& file : source.files) scanner.add(folder_of(source, op, paths) / file);
  return scanner;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string digest_of(const std::vector<std::pair<std::string, std::string>>& parts) {
  Sha256 hash;
  for (const auto& [name, value] : parts) {
    hash.add(name + "\n" + std::to_string(value.size()) + "\n");
    hash.add(value);
  }
  return hash.hex();
}

[[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& want) {
  throw Error(ErrorCode::invalid_argument, "op builders",
              {.what = what, .got = "'" + got + "'", .want = want});
}

}  // namespace

std::string checked_arch(const std::string& text) {
  const bool good = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '+' ||
           c == '_';
  });
  if (!good || text.starts_with("native") || text.starts_with('-'))
    fail("not an instruction set", text,
         "an -march value other than native, such as x86-64-v3 or armv8.2-a+dotprod");
  return text;
}

std::vector<std::string> parse_cuda_archs(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text + ";") {
    if (c != ';' && c != ',' && c != ' ') {
      word += c;
      continue;
    }
    if (word.empty()) continue;
    const bool ptx = word.ends_with("+PTX");
    std::string number = word.substr(0, word.size() - (ptx ? 4 : 0));
    std::erase(number, '.');  // torch writes 8.0, nvcc expects 80
    const auto digits = number.find_first_not_of("0123456789");
    const bool good =
        number.size() >= 2 && number.size() <= 4 && digits != 0 &&
        (digits == std::string::npos ||
         (digits + 1 == number.size() && (number[digits] == 'a' || number[digits] == 'f')));
    if (!good)
      fail("not a CUDA architecture", word, "an architecture, such as 80, 9.0a or 9.0+PTX");
    number += ptx ? "+PTX" : "";
    if (std::find(out.begin(), out.end(), number) == out.end()) out.push_back(number);
    word.clear();
  }
  return out;
}

Target target_from_environment() {
  Target out;
  if (const auto arch = env("ANYACCEL_OP_ARCH")) out.arch = checked_arch(*arch);
  auto archs = env("ANYACCEL_CUDA_ARCHS");
  if (!archs) archs = env("TORCH_CUDA_ARCH_LIST");
  if (archs) out.cuda_archs = parse_cuda_archs(*archs);
  return out;
}

std::vector<std::pair<std::string, fs::path>> key_files(const Op& op, const Paths& paths) {
  std::vector<std::pair<std::string, fs::path>> out;
  for (const auto& [name, file] : scan(op, paths).result()) out.emplace_back(name, file.first);
  return out;
}

Key content_key(const Op& op, const Paths& paths, const LibTorch* torch, const Target& target) {
  const auto& what = op.description;
  Key out;
  auto& parts = out.content_parts;
  parts = {{"format", kFormat}, {"op", what.name}, {"anyaccel", ANYACCEL_VERSION}};
  parts.emplace_back("abi", own_identity().compiler_abi);
  parts.emplace_back("sanitizer", joined(sanitizer_flags()));
  if (torch != nullptr) parts.emplace_back("libtorch", torch->version + " " + torch->fingerprint);
  parts.emplace_back("arch", target.arch.empty() ? "baseline" : target.arch);
  if (what.needs_nvcc()) parts.emplace_back("cuda archs", joined(cuda_flags(target)));
  for (const auto& source : what.sources)
    parts.emplace_back("flags of " + source.name(), joined(source_flags(op, source, target)));
  parts.emplace_back("libraries", joined(what.links));
  if (!what.python.empty()) parts.emplace_back("python", what.python);
  for (const auto& [name, file] : scan(op, paths).result())
    parts.emplace_back("file " + name, file.second);
  out.content = digest_of(parts);
  return out;
}

void add_tools(Key& key, const std::vector<std::pair<std::string, std::string>>& tools,
               const std::vector<std::string>& search) {
  key.tool_parts = {{"content", key.content}};
  key.tool_parts.insert(key.tool_parts.end(), tools.begin(), tools.end());
  for (const auto& variable : search) key.tool_parts.emplace_back("environment", variable);
  key.key = digest_of(key.tool_parts);
}

}  // namespace anyaccel::build
