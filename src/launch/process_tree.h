// Finds the descendants of a process in /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace anyaccel::launch {

struct Process {
  pid_t id;
  pid_t group;
};

/// Returns the running descendants of `root`, without zombies. Orphans count as children of their
/// closest subreaper (PR_SET_CHILD_SUBREAPER). Returns an empty list if /proc cannot be read.
std::vector<Process> descendants(pid_t root);

/// Sends a signal to each process, except those in the process group `except` (0: no exception).
void send_signal(const std::vector<Process>& processes, int signal, pid_t except = 0) noexcept;

}  // namespace anyaccel::launch
