// The plugins of this process, for registry and detection.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/plugins.h"
#include "base/plugin/search.h"

namespace anyaccel {

/// Searches the folders and registers each plugin as a backend that opens its library when it is
/// first probed or created. A broken plugin becomes a backend whose probe returns the reason. The
/// caller must not hold a lock of the registry.
void register_found_plugins(const std::vector<PluginFolder>& folders) noexcept;

/// True for the name of a backend that a plugin's text file registered. Thread-safe.
bool is_plugin(const std::string& name);

/// "; rejected plugins: ..." for messages; empty if there are none.
std::string refused_plugins();

}  // namespace anyaccel
