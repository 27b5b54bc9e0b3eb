// The plugins of this process, for registry and detection.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/plugins.h"
#include "base/plugin/search.h"

namespace anyaccel {

/// Looks into the folders and registers what is found: each plugin as a backend that opens its
/// library when it is first probed or created; a broken one with its reason as its answer. Called
/// with no lock of the registry held.
void register_found_plugins(const std::vector<PluginFolder>& folders) noexcept;

/// True for the name of a backend that a plugin's text file registered. Thread-safe.
bool is_plugin(const std::string& name);

/// "; plugins that were refused: ..." for messages; empty when none was.
std::string refused_plugins();

}  // namespace anyaccel
