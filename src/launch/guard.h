// A process between the launcher and the ranks on a host. It starts the ranks, detects the first
// failure, and terminates all remaining processes, even if the launcher dies.
//
// The guard is the parent of the ranks and the subreaper of all their descendants, so that no
// process of a rank can escape by becoming a daemon. It terminates all ranks if one fails, if the
// launcher requests it, or if the launcher dies. If the guard itself is killed, the kernel kills
// the ranks, and the launcher, which is also a subreaper, inherits their descendants.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// Descriptors for a rank's output; -1 means that the rank inherits the launcher's descriptor.
struct RankDescriptors {
  int output = -1;
  int error = -1;
};

/// A message from the guard. The kinds are listed in the order in which they are sent.
struct GuardMessage {
  enum Kind : int {
    not_started,  ///< `rank` could not be forked, and `status` is errno; the job is terminated
    /// `rank` was the first rank to exit with a status other than 0, and the job was not yet being
    /// terminated; `status` is from waitpid().
    failed,
    /// All ranks succeeded, but `status` processes that they started were still running and were
    /// terminated.
    left_behind,
    finished,  ///< all processes have exited, except `status` processes that cannot be killed
  };
  Kind kind;
  int rank = -1;  ///< index into Job::ranks
  int status = 0;
};

/// The launcher's connection to the guard process.
class Guard {
 public:
  /// Forks the guard. `descriptors` has one entry per rank. `remove` is the path of a file that the
  /// guard removes if the launcher dies; an empty path means none. The calling process must have
  /// only one thread. Throws `unavailable` if it cannot fork.
  Guard(const Job& job, const std::vector<RankDescriptors>& descriptors, const std::string& remove);
  /// Waits until the guard has exited. If start() was not called, no rank is started.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Starts the ranks. Install the signal handlers first, because a rank may trigger a signal as
  /// soon as it runs.
  void start();

  /// Descriptor that is readable if a message is available or the guard has exited.
  int link() const noexcept { return link_; }
  /// Receives the next message; returns nullopt if the guard has exited.
  std::optional<GuardMessage> receive();
  pid_t process() const noexcept { return process_; }

  /// Tells the guard at `link` that the launcher received a signal. `from_terminal` means that a
  /// terminal sent the signal, so the ranks have also received it. Otherwise the guard sends it to
  /// the ranks. The ranks get SIGKILL three seconds later or on the second call. SIGUSR1 and
  /// SIGUSR2 are only forwarded. Async-signal-safe.
  static void forward(int link, int signal, bool from_terminal) noexcept;

 private:
  int link_ = -1;
  pid_t process_ = 0;
};

/// Kills all descendants of this process. Called by a launcher whose guard has died.
void kill_descendants();

}  // namespace anyaccel::launch
