// The plugins of this process, for the registry and for detection.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/plugins.h"
#include "base/plugin/search.h"

namespace anyaccel {

/// Searches the folders and registers each plugin as a backend, whose library is loaded when the
/// backend is first probed or created. A broken plugin becomes a backend whose probe returns the
/// reason. The caller must not hold the registry's lock.
void register_found_plugins(const std::vector<PluginFolder>& folders) noexcept;

/// True if a plugin's text file registered a backend of this name. Thread-safe.
bool is_plugin(const std::string& name);

/// Returns "; rejected plugins: ..." for error messages, or an empty string if there are none.
std::string refused_plugins();

}  // namespace anyaccel
