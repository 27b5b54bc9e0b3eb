// Plugins: backends from outside this tree, found in folders and loaded when they are needed.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel {

/// What became of a plugin.
enum class PluginState {
  found,    ///< checked as far as its text file goes; its library was not needed so far
  loaded,   ///< its library is open and its backend is registered
  refused,  ///< `reason` says why; it takes no part
};

/// Stable lower-case name of a state. Never null.
ANYACCEL_API const char* to_string(PluginState state) noexcept;

struct PluginVerdict {
  std::string name;  ///< as DS_ACCELERATOR says it; empty for a folder that could not be searched
  std::string path;  ///< its text file, or that folder
  std::string library;  ///< its library; empty where the text file does not say
  PluginState state = PluginState::found;
  std::string reason;  ///< one sentence
};

/// Every plugin that was found so far, in the order of the search. Opens none. Thread-safe.
ANYACCEL_API std::vector<PluginVerdict> plugins();

/// Looks for plugins in one more folder, which must be an absolute path, after those of
/// ANYACCEL_PLUGIN_PATH and of the install. A package of another language calls it for what its own
/// packages bring (Python's entry points `anyaccel.backends`). What is wrong is kept as a verdict,
/// never thrown. Thread-safe; has no effect on an accelerator that was chosen already; a folder
/// that was searched before is not searched again.
ANYACCEL_API void add_plugin_folder(const std::string& folder);

}  // namespace anyaccel
