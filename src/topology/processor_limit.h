// How much of the processors this process may use.
#pragma once

#include <filesystem>

namespace anyaccel::topology {

/// The tightest quota of the control groups (v1 and v2, with all ancestors) that this process is
/// in, in processors: 1.5 means three halves of one; infinite where there is none. `root` is where
/// /proc and /sys lie, for tests.
double control_group_processors(const std::filesystem::path& root = "/");

}  // namespace anyaccel::topology
