// The process that stands between the launcher and the ranks of a host: it starts them, sees which
// one fails first, and ends what is left of all of them, whatever happens to the launcher.
//
// It is the parent of the ranks and the subreaper of everything below them, so that no process of a
// rank can leave it, as a daemon would. It ends them all when one fails, when the launcher says so,
// and when the launcher is gone. When the guard itself is killed, the ranks get SIGKILL from the
// kernel, and what they started falls to the launcher, which is a subreaper too.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// Where a rank's output goes; -1: where the launcher's own goes.
struct RankDescriptors {
  int output = -1;
  int error = -1;
};

/// What the guard tells. Sent whole, in this order of kinds.
struct GuardMessage {
  enum Kind : int {
    not_started,  ///< `rank` could not be forked; `status` is errno. The job ends.
    failed,  ///< `rank` ended first with another status than 0, while nothing else ended the job;
             ///< `status` as of waitpid()
    left_behind,  ///< all ranks ended well, but `status` processes of theirs still ran and were
                  ///< ended
    finished,     ///< nothing is left but `status` processes that cannot be killed
  };
  Kind kind;
  int rank = -1;  ///< index into Job::ranks
  int status = 0;
};

/// The launcher's end.
class Guard {
 public:
  /// Forks the guard. `descriptors` has one for each rank. `remove` is a file to remove when the
  /// launcher dies; may be empty. The caller has no other threads. Throws `unavailable` when it
  /// cannot fork.
  Guard(const Job& job, const std::vector<RankDescriptors>& descriptors, const std::string& remove);
  /// Waits for the guard's end. One that was not told to start has started no rank.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Lets it start the ranks: when this process handles its signals, since what a rank brings about
  /// may be one.
  void start();

  /// Readable when there is a message, or its end.
  int link() const noexcept { return link_; }
  /// Nothing when the guard is gone.
  std::optional<GuardMessage> receive();
  pid_t process() const noexcept { return process_; }

  /// Tells the guard behind `link` that the launcher got a signal, and whether a terminal sent it,
  /// which reaches ranks too. The ranks get it, and SIGKILL three seconds later or at a second
  /// call. SIGUSR1 and SIGUSR2 are passed on, and end nothing. For signal handlers.
  static void forward(int link, int signal, bool from_terminal) noexcept;

 private:
  int link_ = -1;
  pid_t process_ = 0;
};

/// Ends all processes below this one with SIGKILL: for a launcher whose guard is gone.
void kill_descendants();

}  // namespace anyaccel::launch
