// Where plugins are looked for, and what can be said about each without opening its library.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/plugin/plugin_file.h"

namespace anyaccel {

/// A plugin, or what should have been one.
struct FoundPlugin {
  std::string name;               ///< of its text file; where that cannot be read, the file's name
  std::filesystem::path file;     ///< its text file; or a folder that could not be searched
  std::filesystem::path library;  ///< empty when the text file does not say
  PluginTraits described;         ///< when there is no problem
  std::string problem;            ///< why it is refused; empty when its library may be opened
};

/// Text files end in this.
constexpr const char* kPluginSuffix = ".plugin";

struct PluginFolder {
  std::filesystem::path path;
  bool required = true;  ///< that it is not there is worth a word
};

/// ANYACCEL_PLUGIN_PATH (folders with ':' between them), then `anyaccel/plugins` beside our own
/// libraries. The variable is not read in a program that runs with more rights than its user.
ANYACCEL_API std::vector<PluginFolder> plugin_search_path();

/// Inspects all plugins in these folders, in order, sorted by name within a folder. Rejects
/// relative folders, and folders, text files and libraries that are not trusted
/// (base/trusted_path.h). Never throws.
ANYACCEL_API std::vector<FoundPlugin> find_plugins(
    const std::vector<PluginFolder>& folders) noexcept;

}  // namespace anyaccel
