// Opens one plugin's library, checks its descriptor and lets the plugin register its backend.
#pragma once

#include <functional>
#include <memory>

#include "anyaccel/registry.h"
#include "base/plugin/search.h"

namespace anyaccel {

/// The backend that a plugin registered.
struct LoadedPlugin {
  std::function<std::shared_ptr<sdk::Backend>()> create;
  std::function<sdk::Probe()> probe;  ///< empty if the plugin has no probe
};

/// Loads the library of a plugin that passed the checks during the search, and never unloads it.
/// Throws `unavailable` or `version_mismatch` with the reason. With `trial`, a child process first
/// does the same and also calls the probe. This way, a library that hangs, crashes or terminates
/// its process (for example, because a static constructor throws) is rejected like any other broken
/// library. Call it once per plugin.
LoadedPlugin load_plugin(const FoundPlugin& plugin, bool trial);

/// Returns ANYACCEL_PLUGIN_TIMEOUT, the time limit in seconds for loading a plugin, for its probe
/// and for its create function. 0 means no limit. Throws `invalid_argument`.
long plugin_seconds();

}  // namespace anyaccel
