// Turns a forked child into a rank.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <iterator>

#include "launch/guard.h"

namespace anyaccel::launch {

/// The launcher's signal mask and actions at startup, which ranks inherit.
struct SignalSettings {
  static constexpr int kHandled[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                     SIGALRM, SIGPIPE, SIGUSR1, SIGUSR2};
  sigset_t mask{};
  struct sigaction actions[std::size(kHandled)]{};

  /// Returns the settings of this process.
  static SignalSettings current() noexcept;
  void restore() const noexcept;
};

/// Replaces this process, a child of `guard`, with the rank's program. `input` is its standard
/// input (-1: the launcher's) and `group` its process group (0: the guard's). The process gets the
/// signal `orphaned` if the guard dies. Errors are logged to the rank's standard error. As in
/// shells, the exit code is 127 for a missing program and 126 for one that cannot be run.
[[noreturn]] void become_rank(const JobRank& rank, const std::vector<std::string>& unset,
                              RankDescriptors descriptors, int input, const SignalSettings& signals,
                              pid_t guard, pid_t group, int orphaned);

}  // namespace anyaccel::launch
