// Opens one plugin's library, checks its descriptor and lets it register.
#pragma once

#include <functional>
#include <memory>

#include "anyaccel/registry.h"
#include "base/plugin/search.h"

namespace anyaccel {

/// What a plugin registered.
struct LoadedPlugin {
  std::function<std::shared_ptr<sdk::Backend>()> create;
  std::function<sdk::Probe()> probe;  ///< may be empty
};

/// Opens the library of a plugin without a problem and never closes it. Throws `unavailable` or `version_mismatch` with the
/// reason. With `trial` all of it and a call of its probe happen in a child process first, so that a library that hangs or ends its
/// process (a static constructor that throws, a crash) is refused like any other. Call it once for each plugin.
LoadedPlugin load_plugin(const FoundPlugin& plugin, bool trial);

/// ANYACCEL_PLUGIN_TIMEOUT: for how long a plugin may be opened, probe and create. 0: for ever. Throws `invalid_argument`.
long plugin_seconds();

}  // namespace anyaccel
