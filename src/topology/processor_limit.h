// CPU quota of this process.
#pragma once

#include <filesystem>

namespace anyaccel::topology {

/// The tightest quota among this process's control groups (v1 and v2, with all ancestors), in CPUs:
/// 1.5 means one and a half. Infinite if there is none. `root` is the folder that contains /proc
/// and /sys; tests change it.
double control_group_processors(const std::filesystem::path& root = "/");

}  // namespace anyaccel::topology
