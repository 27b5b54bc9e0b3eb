// Reading of Linux control groups; private to the topology.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::topology {

/// The whole number after the first `key` at the start of a line, or after "Node N " there; nothing
/// when there is none.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key);

/// A mounted control group hierarchy with some controller.
struct GroupFolders {
  bool v2 = false;
  /// The group of this process and its ancestors up to the mount, innermost first. Below `root`.
  std::vector<std::filesystem::path> folders;
};

/// Finds those of the controller that a file belongs to, as "memory.max" to memory, from
/// /proc/self/cgroup and /proc/self/mountinfo; empty where there are none.
std::vector<GroupFolders> control_groups(std::string_view file, const std::filesystem::path& root);

}  // namespace anyaccel::topology
