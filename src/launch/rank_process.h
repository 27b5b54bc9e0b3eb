// What a forked child does to become a rank.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <iterator>

#include "launch/guard.h"

namespace anyaccel::launch {

/// What the launcher found when it started, and a rank gets back.
struct SignalSettings {
  static constexpr int kHandled[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                     SIGALRM, SIGPIPE, SIGUSR1, SIGUSR2};
  sigset_t mask{};
  struct sigaction actions[std::size(kHandled)]{};

  /// This process's own.
  static SignalSettings current() noexcept;
  void restore() const noexcept;
};

/// Replaces this process, a child of `guard`, by the rank's program, which reads from `input` (-1:
/// as the launcher), in process group `group` (0: the guard's). It gets `orphaned` when the guard
/// is gone. What goes wrong is said on the rank's standard error; exit code 127 for a program that
/// is not there and 126 for one that cannot be run, as shells have it.
[[noreturn]] void become_rank(const JobRank& rank, const std::vector<std::string>& unset,
                              RankDescriptors descriptors, int input, const SignalSettings& signals,
                              pid_t guard, pid_t group, int orphaned);

}  // namespace anyaccel::launch
