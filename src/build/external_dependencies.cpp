#include "build/external_dependencies.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/env.h"
#include "base/file.h"
#include "build/elf.h"
#include "build/prefix.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return !folder.empty() && end == folder.end();
}

fs::path real(const fs::path& path) {
  std::error_code error;
  auto out = fs::canonical(path, error);
  return error ? path.lexically_normal() : out;
}

bool is_library(const fs::path& path) {
  return path.filename().string().find(".so") != std::string::npos;
}

/// Returns the file's size and modification time, without a digest, or nullopt if the file does not
/// exist.
std::optional<ExternalFile> look_at(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return ExternalFile{.path = path.string(),
                      .bytes = info.st_size,
                      .time = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec,
                      .digest = {}};
}

std::string digest_of(const fs::path& path) {
  if (is_library(path)) return sha256(library_identity(path));
  const auto text = try_read_file(path);
  return text ? sha256(*text) : std::string();
}

}  // namespace

std::vector<std::string> dependencies_in(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  const auto take = [&] {
    // Skip the target, whose name ends with a colon.
    if (!word.empty() && word.back() != ':') out.push_back(word);
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\\' && (next == '\n' || next == '\r')) {
      ++i;
      take();
    } else if ((c == '\\' && (next == ' ' || next == '#' || next == '\\')) ||
               (c == '$' && next == '$')) {
      word += text[++i];
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      take();
    } else {
      word += c;
    }
  }
  take();
  return out;
}

std::vector<ExternalFile> external_files(const Op& op, const Paths& paths, const LibTorch* torch,
                                         const std::vector<fs::path>& lists) {
  std::vector<fs::path> covered{real(op.folder())};
  for (const auto& folder : source_folders(paths)) covered.push_back(real(folder));
  for (const auto& folder : paths.includes) covered.push_back(real(folder));
  if (torch != nullptr) covered.push_back(real(torch->prefix));
  std::set<fs::path> files;
  for (const auto& list : lists)
    for (const auto& name : dependencies_in(try_read_file(list).value_or("")))
      files.insert(fs::absolute(name).lexically_normal());
  const fs::path prefix = prefix_of(op.description);
  if (!prefix.empty())
    for (const auto& name : op.description.links)
      files.insert(prefix / "lib" / ("lib" + name + ".so"));
  std::vector<ExternalFile> out;
  for (const auto& path : files) {
    const auto in_line = std::none_of(path.native().begin(), path.native().end(),
                                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    // Compilers replace a path with its link target if the target's path is shorter.
    const auto target = real(path);
    const bool has_key = std::any_of(covered.begin(), covered.end(),
                                     [&](const auto& folder) { return is_below(target, folder); });
    if (!in_line || has_key) continue;
    auto file = look_at(path);
    if (!file) continue;
    file->digest = digest_of(path);
    if (!prefix.empty() && is_below(target, real(prefix)))
      file->path = "$" + op.description.prefix_variable + "/" +
                   (is_below(path, prefix.lexically_normal())
                        ? path.lexically_relative(prefix.lexically_normal())
                        : target.lexically_relative(real(prefix)))
                       .string();
    out.push_back(std::move(*file));
  }
  return out;
}

std::string external_change(const std::vector<ExternalFile>& files, const Description& op,
                            bool prebuilt) {
  // The prefix is built into a prebuilt library, and only the user's variable overrides it.
  const auto prefix = !prebuilt                    ? prefix_of(op)
                      : op.prefix_variable.empty() ? std::string()
                                                   : env(op.prefix_variable.c_str()).value_or("");
  const auto variable = "$" + op.prefix_variable + "/";
  for (const auto& file : files) {
    const bool in_prefix = !op.prefix_variable.empty() && file.path.starts_with(variable);
    if (prebuilt && (!in_prefix || prefix.empty())) continue;
    const fs::path path =
        in_prefix ? fs::path(prefix) / file.path.substr(variable.size()) : fs::path(file.path);
    const auto now = look_at(path);
    if (!now) return path.string() + " was used in the build, but is missing";
    if (now->bytes == file.bytes && now->time == file.time) continue;
    if (digest_of(path) != file.digest) return path.string() + " has changed since the build";
  }
  return {};
}

}  // namespace anyaccel::build
