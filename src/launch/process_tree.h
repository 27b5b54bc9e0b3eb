// The processes below another one, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace anyaccel::launch {

struct Process {
  pid_t id;
  pid_t group;
};

/// Children of `root`, their children and so on that still run (no zombies). What a process left
/// behind when it ended is below the next subreaper above it (PR_SET_CHILD_SUBREAPER). Empty where
/// /proc cannot be read.
std::vector<Process> descendants(pid_t root);

/// Sends a signal to each; those of group `except` are left out, unless that is 0.
void send_signal(const std::vector<Process>& processes, int signal, pid_t except = 0) noexcept;

}  // namespace anyaccel::launch
