// Plugins: backends in separate libraries that are found through text files and loaded on demand.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel {

/// State of a plugin.
enum class PluginState {
  found,    ///< the text file is valid; the library is not loaded yet
  loaded,   ///< the library is loaded and its backend is registered
  refused,  ///< the plugin is not used; `reason` explains why
};

/// Return the lower-case name of a state. Names are stable. Never null.
ANYACCEL_API const char* to_string(PluginState state) noexcept;

/// A plugin that was found, or a plugin folder that could not be searched.
struct PluginVerdict {
  std::string name;     ///< name for DS_ACCELERATOR; empty for a folder that could not be searched
  std::string path;     ///< path of the text file, or of the folder
  std::string library;  ///< path of the library; empty if the text file does not contain it
  PluginState state = PluginState::found;
  std::string reason;  ///< explanation in one sentence
};

/// Return all plugins found so far, in search order. Does not load their libraries. Thread-safe.
ANYACCEL_API std::vector<PluginVerdict> plugins();

/// Search one more folder for plugins, after the folders in ANYACCEL_PLUGIN_PATH and the
/// installation's plugin folder. `folder`: an absolute path. A language binding can call this for
/// plugin folders inside packages of its language.
///
/// Never throws for an invalid folder or plugin; plugins() reports the problem. A folder that was
/// searched before is skipped. An accelerator that was already chosen does not change. Thread-safe.
ANYACCEL_API void add_plugin_folder(const std::string& folder);

}  // namespace anyaccel
