#include "launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace anyaccel::launch {

namespace {

struct Entry {
  Process process;
  pid_t parent;
  char state;
};

/// Parses "PID (NAME) STATE PPID PGRP ...", where NAME may contain any character.
bool read_entry(const char* name, Entry& entry) {
  const std::string path = std::string("/proc/") + name + "/stat";
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  char text[512];
  const ssize_t count = ::read(descriptor, text, sizeof text - 1);
  ::close(descriptor);
  if (count <= 0) return false;
  text[count] = 0;
  const char* behind = std::strrchr(text, ')');
  if (behind == nullptr) return false;
  entry.process.id = std::atoi(name);
  return std::sscanf(behind + 1, " %c %d %d", &entry.state, &entry.parent, &entry.process.group) ==
         3;
}

}  // namespace

std::vector<Process> descendants(pid_t root) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return {};
  std::unordered_multimap<pid_t, Entry> children;
  while (const dirent* one = ::readdir(folder.get())) {
    Entry entry{};
    if (one->d_name[0] >= '1' && one->d_name[0] <= '9' && read_entry(one->d_name, entry))
      children.emplace(entry.parent, entry);
  }
  std::vector<Process> out;
  std::vector<pid_t> open{root};
  std::unordered_set<pid_t> seen{
      root};  // prevents endless loops: the snapshot is not atomic, so it may contain a cycle
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto one = begin; one != end; ++one) {
      const auto& entry = one->second;
      if (!seen.insert(entry.process.id).second) continue;
      open.push_back(entry.process.id);
      if (entry.state != 'Z' && entry.state != 'X') out.push_back(entry.process);
    }
  }
  return out;
}

void send_signal(const std::vector<Process>& processes, int signal, pid_t except) noexcept {
  for (const auto& process : processes)
    if (except == 0 || process.group != except) ::kill(process.id, signal);
}

}  // namespace anyaccel::launch
