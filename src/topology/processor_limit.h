// The CPU quota of this process.
#pragma once

#include <filesystem>

namespace anyaccel::topology {

/// Returns the tightest quota of this process's control groups (v1 and v2, with all ancestors) as a
/// number of CPUs, for example 1.5. Returns infinity if there is none. `root` is the folder that
/// contains /proc and /sys; tests pass a different one.
double control_group_processors(const std::filesystem::path& root = "/");

}  // namespace anyaccel::topology
