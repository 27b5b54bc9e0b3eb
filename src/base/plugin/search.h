// Finds plugins and inspects them without opening their libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/plugin/plugin_file.h"

namespace anyaccel {

/// A plugin, or a file or folder that was rejected.
struct FoundPlugin {
  std::string name;            ///< name in its text file, or the file's name if that cannot be read
  std::filesystem::path file;  ///< its text file, or a folder that could not be searched
  std::filesystem::path library;  ///< empty if the text file does not name it
  PluginTraits described;         ///< valid if `problem` is empty
  std::string problem;            ///< why it is rejected; empty if its library may be opened
};

/// Suffix of text files.
constexpr const char* kPluginSuffix = ".plugin";

struct PluginFolder {
  std::filesystem::path path;
  bool required = true;  ///< report it if it is missing
};

/// The colon-separated folders of ANYACCEL_PLUGIN_PATH, then `anyaccel/plugins` next to our own
/// libraries. Ignores the variable in programs that run with elevated privileges (set-user-ID).
ANYACCEL_API std::vector<PluginFolder> plugin_search_path();

/// Inspects all plugins in these folders, in order, sorted by name within a folder. Rejects
/// relative folders, and folders, text files and libraries that are not trusted
/// (base/trusted_path.h). Never throws.
ANYACCEL_API std::vector<FoundPlugin> find_plugins(
    const std::vector<PluginFolder>& folders) noexcept;

}  // namespace anyaccel
