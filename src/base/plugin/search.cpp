#include "base/plugin/search.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/library_folder.h"
#include "base/plugin/library_check.h"
#include "base/trusted_path.h"
#include "base/untrusted_text.h"

namespace anyaccel {

namespace {

namespace fs = std::filesystem;

/// A file larger than this cannot be a plugin's text file.
constexpr off_t kMaxTextBytes = 1 << 20;

std::string text_file_problem(const fs::path& path) {
  if (auto problem = trust_problem(path, TrustedKind::file); !problem.empty()) return problem;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && info.st_size > kMaxTextBytes)
    return quoted_text(path.native()) + " is too large for a plugin's text file";
  return {};
}

/// Fills in `plugin` from the text file and the library's headers. Problems are stored in `plugin`
/// or thrown.
void examine(FoundPlugin& plugin) {
  const auto reject = [&](std::string problem) { plugin.problem = std::move(problem); };
  if (auto problem = text_file_problem(plugin.file); !problem.empty()) return reject(problem);
  const auto file = parse_plugin_file(read_file(plugin.file));
  plugin.name = file.name;
  plugin.library = plugin.file.parent_path() / file.library;
  if (is_reserved_name(file.name))
    return reject("the name '" + file.name +
                  "' is reserved for AnyAccel or torch; rename the plugin");
  if (auto problem = identity_mismatch(file.build, own_identity()); !problem.empty())
    return reject(problem);
  plugin.described = plugin_traits(file);
  if (auto problem = trust_problem(plugin.library, TrustedKind::file); !problem.empty())
    return reject(problem);
  // A library must not be directly in a world-writable folder such as /tmp.
  const auto real = fs::canonical(plugin.library);
  if (auto problem = trust_problem(real.parent_path(), TrustedKind::folder); !problem.empty())
    return reject(problem);
  if (auto problem = library_problem(real); !problem.empty())
    reject(plugin.library.string() + ": " + problem);
}

FoundPlugin look_at(const fs::path& path) {
  FoundPlugin plugin{.name = path.stem().string(), .file = path};
  try {
    examine(plugin);
  } catch (const std::exception& error) {
    plugin.problem = plugin.file.string() + ": " + error.what();
  }
  return plugin;
}

void search(const PluginFolder& where, std::vector<FoundPlugin>& out) {
  const auto& folder = where.path;
  const auto reject = [&](std::string problem) {
    out.push_back({.file = folder, .problem = std::move(problem)});
  };
  if (!folder.is_absolute())
    return reject("'" + folder.string() +
                  "' is a relative path, which depends on the working directory; " +
                  "use an absolute path");
  std::error_code error;
  if (!where.required && !fs::exists(folder, error)) return;
  if (auto problem = trust_problem(folder, TrustedKind::folder); !problem.empty())
    return reject(problem);
  std::vector<fs::path> files;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::end(entry);
       entry.increment(error))
    if (entry->path().extension() == kPluginSuffix) files.push_back(entry->path());
  if (error) return reject(folder.string() + " cannot be searched: " + error.message());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) out.push_back(look_at(file));
}

}  // namespace

std::vector<PluginFolder> plugin_search_path() {
  std::vector<PluginFolder> out;
  // Use secure_getenv(): the user of a set-user-ID program must not be able to choose the code that
  // it runs.
  const char* value = ::secure_getenv("ANYACCEL_PLUGIN_PATH");
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    // Unlike in PATH, an empty entry does not mean the current folder.
    if (const auto part = rest.substr(0, colon); !part.empty()) out.push_back({fs::path(part)});
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }
  try {
    out.push_back({own_library_folder("plugins") / "anyaccel" / "plugins", /*required=*/false});
  } catch (const Error&) {
    // If the folder of AnyAccel's libraries is unknown, so is the plugin folder next to it.
  }
  return out;
}

std::vector<FoundPlugin> find_plugins(const std::vector<PluginFolder>& folders) noexcept {
  std::vector<FoundPlugin> out;
  for (const auto& folder : folders) {
    try {
      search(folder, out);
    } catch (const std::exception& error) {
      out.push_back({.file = folder.path,
                     .problem = folder.path.string() + " cannot be searched: " + error.what()});
    }
  }
  return out;
}

}  // namespace anyaccel
