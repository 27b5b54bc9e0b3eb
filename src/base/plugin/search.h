// Finds plugins and inspects them without loading their libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/plugin/plugin_file.h"

namespace anyaccel {

/// A plugin, or a file or folder that was rejected.
struct FoundPlugin {
  std::string name;  ///< name from the text file, or the file's own name if its text cannot be read
  std::filesystem::path file;  ///< the plugin's text file, or a folder that could not be searched
  std::filesystem::path library;  ///< empty if the text file does not name a library
  PluginTraits described;         ///< valid if `problem` is empty
  std::string problem;            ///< reason for the rejection; empty if the library may be opened
};

/// File name suffix of a plugin's text file.
constexpr const char* kPluginSuffix = ".plugin";

struct PluginFolder {
  std::filesystem::path path;
  bool required = true;  ///< whether to report a missing folder
};

/// Returns the colon-separated folders in ANYACCEL_PLUGIN_PATH, then `anyaccel/plugins` next to
/// AnyAccel's libraries. Ignores the variable in programs that run with elevated privileges
/// (set-user-ID).
ANYACCEL_API std::vector<PluginFolder> plugin_search_path();

/// Inspects all plugins in these folders. The result follows the order of the folders and is sorted
/// by name within each folder. Rejects relative folders, and folders, text files and libraries that
/// are not trusted (base/trusted_path.h). Never throws.
ANYACCEL_API std::vector<FoundPlugin> find_plugins(
    const std::vector<PluginFolder>& folders) noexcept;

}  // namespace anyaccel
