#include "topology/control_group.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <limits>

#include "base/file.h"
#include "topology/memory_limit.h"
#include "topology/processor_limit.h"

namespace anyaccel::topology {

namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto at = std::min(text.find(separator), text.size());
    if (at > 0) parts.push_back(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return parts;
}

/// Decodes the octal escapes of mountinfo, for example "\040" for a space.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return out;
}

bool has_word(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns this process's control group, as a path in the v2 hierarchy (line "0::PATH") or in the
/// hierarchy of a v1 controller ("N:memory:PATH").
std::optional<std::string> own_path(std::string_view cgroup, std::string_view controller, bool v2) {
  for (const auto line : split(cgroup, '\n')) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const bool matches = v2 ? line.substr(0, first) == "0" && controllers.empty()
                            : has_word(controllers, controller);
    if (matches) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

/// Returns the folders from the process's own group up to the hierarchy's mount point.
std::vector<fs::path> chain(const fs::path& mount, const std::string& mount_root,
                            const std::string& own) {
  // In a container without a cgroup namespace, the path is relative to the host's root group, but
  // only the lower part of the hierarchy is mounted.
  fs::path below = fs::path(own).lexically_relative(mount_root);
  if (below.empty() || *below.begin() == "..") below = ".";
  std::vector<fs::path> folders;
  fs::path folder = mount;
  folders.push_back(folder);
  for (const auto& part : below) {
    if (part == ".") continue;
    folder /= part;
    folders.push_back(folder);
  }
  std::reverse(folders.begin(), folders.end());
  return folders;
}

std::optional<std::int64_t> number_in(const fs::path& path) {
  const auto text = try_read_kernel_file(path.native());
  return text ? number_after(*text, "") : std::nullopt;
}

/// The files that describe one group's memory.
struct MemoryGroup {
  fs::path limit;
  fs::path usage;
  fs::path stat;
  fs::path hierarchy;         ///< set only for ancestors in v1
  std::string_view inactive;  ///< key in `stat` for the page cache that is reclaimed first
};

MemoryGroup memory_group(const fs::path& folder, bool v2, bool parent) {
  if (v2)
    return {folder / "memory.max",
            folder / "memory.current",
            folder / "memory.stat",
            {},
            "inactive_file"};
  return {folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes",
          folder / "memory.stat", parent ? folder / "memory.use_hierarchy" : fs::path(),
          "total_inactive_file"};
}

/// Applies one group's limit. "max" and the huge number in v1 mean no limit.
void limit_by_group(MemoryAmount& amount, const MemoryGroup& group) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  const auto limit = number_in(group.limit);
  if (!limit || *limit >= kNoLimit) return;
  // In v1, a group limits its descendants only if its memory.use_hierarchy is set.
  if (!group.hierarchy.empty() && number_in(group.hierarchy).value_or(1) == 0) return;
  const auto usage = number_in(group.usage).value_or(0);
  const auto stat = try_read_kernel_file(group.stat.native()).value_or("");
  const auto inactive = number_after(stat, group.inactive).value_or(0);
  const auto used = std::max<std::int64_t>(usage - inactive, 0);
  const auto from = group.limit.string();
  amount.limit_to({*limit, std::max<std::int64_t>(*limit - used, 0), from, from});
}

}  // namespace

std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("Node ")) line = line.substr(std::min(line.find(' ', 5) + 1, line.size()));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    // v1 may report a limit that does not fit in 63 bits, which means no limit.
    if (error == std::errc::result_out_of_range) return MemoryAmount::unlimited;
    if (error == std::errc()) return value;
  }
  return std::nullopt;
}

namespace {

std::vector<GroupFolders> groups_of(const std::optional<std::string>& cgroup, std::string_view file,
                                    const fs::path& root) {
  const auto controller = file.substr(0, file.find('.'));
  const auto mounts = try_read_file(root / "proc/self/mountinfo");
  std::vector<GroupFolders> groups;
  if (!cgroup || !mounts) return groups;
  // The format is "31 23 0:28 ROOT MOUNT options [tags] - type source options".
  for (const auto line : split(*mounts, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.empty()) continue;
    const bool v2 = after[0] == "cgroup2";
    if (!v2 && (after[0] != "cgroup" || !has_word(after.back(), controller))) continue;
    const auto own = own_path(*cgroup, controller, v2);
    if (!own) continue;
    const auto mount = root / fs::path(unescape(before[4])).relative_path();
    groups.push_back({v2, chain(mount, unescape(before[3]), *own)});
  }
  return groups;
}

/// The groups that limit this process's memory, cached together with the content of
/// /proc/self/cgroup. The cache is needed because reading and parsing all mounts takes most of the
/// time of a memory query. Mounts are assumed not to change. If the process moves to a different
/// group, the content of the file changes. There is no mutex, because a forked child could inherit
/// it locked.
struct KnownGroups {
  std::string root;
  std::string cgroup;
  std::vector<MemoryGroup> groups;
  const KnownGroups* older;
};

const std::vector<MemoryGroup>& memory_groups(const fs::path& root) {
  static std::atomic<const KnownGroups*> newest{nullptr};
  const auto cgroup = try_read_kernel_file((root / "proc/self/cgroup").native());
  const auto* first = newest.load(std::memory_order_acquire);
  for (const auto* known = first; known != nullptr; known = known->older)
    if (known->cgroup == cgroup.value_or("") && known->root == root.native()) return known->groups;
  auto* made = new KnownGroups{root.native(), cgroup.value_or(""), {}, first};
  for (const auto& [v2, folders] : groups_of(cgroup, "memory.max", root))
    for (const auto& folder : folders)
      made->groups.push_back(memory_group(folder, v2, &folder != &folders.front()));
  while (!newest.compare_exchange_weak(made->older, made, std::memory_order_acq_rel)) {
  }
  return made->groups;
}

}  // namespace

std::vector<GroupFolders> control_groups(std::string_view file, const fs::path& root) {
  return groups_of(try_read_file(root / "proc/self/cgroup"), file, root);
}

double control_group_processors(const fs::path& root) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& group : control_groups("cpu.max", root))
    for (const auto& folder : group.folders) {
      // v2: "QUOTA PERIOD" or "max PERIOD", in microseconds. v1: two files; a quota of -1 means no
      // limit.
      const auto text =
          try_read_file(folder / (group.v2 ? "cpu.max" : "cpu.cfs_quota_us")).value_or("");
      const auto quota = number_after(text, "");
      const auto space = text.find(' ');
      const auto period = !group.v2 ? number_in(folder / "cpu.cfs_period_us")
                          : space == std::string::npos
                              ? std::nullopt
                              : number_after(std::string_view(text).substr(space + 1), "");
      if (quota && period && *quota > 0 && *period > 0)
        least = std::min(least, static_cast<double>(*quota) / static_cast<double>(*period));
    }
  return least;
}

MemoryAmount control_group_memory(const fs::path& root) {
  using Clock = std::chrono::steady_clock;
  // Cache the result "no limit" for one second, because this query takes three times as long as the
  // rest of a memory query.
  static std::atomic<Clock::duration> unlimited_until{Clock::duration::min()};
  const bool real = root.native() == "/";
  const auto now = Clock::now().time_since_epoch();
  if (real && now < unlimited_until.load(std::memory_order_relaxed)) return {};
  MemoryAmount amount;
  for (const auto& group : memory_groups(root)) limit_by_group(amount, group);
  if (real && amount.total == MemoryAmount::unlimited)
    unlimited_until.store(now + std::chrono::seconds(1), std::memory_order_relaxed);
  return amount;
}

}  // namespace anyaccel::topology
