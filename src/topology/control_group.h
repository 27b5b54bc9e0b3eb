// Reads Linux control groups. Internal to src/topology.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::topology {

/// Returns the integer that follows `key` on the first line that begins with `key`, optionally
/// preceded by "Node N ", or nullopt if there is none.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key);

/// A mounted control group hierarchy with the requested controller.
struct GroupFolders {
  bool v2 = false;
  /// Folders of this process's groups, from its own group up to the mount point, under `root`.
  std::vector<std::filesystem::path> folders;
};

/// Finds the hierarchies with the controller that provides `file` ("memory" for "memory.max"),
/// using /proc/self/cgroup and /proc/self/mountinfo. Returns an empty list if there are none.
std::vector<GroupFolders> control_groups(std::string_view file, const std::filesystem::path& root);

}  // namespace anyaccel::topology
