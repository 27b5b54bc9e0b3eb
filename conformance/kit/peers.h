// Additional processes for a case that runs in more than one process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "worker.h"

namespace anyaccel::conformance {

/// Runs one case in the calling process.
using RunAlone = std::function<Result(const Case&)>;

class Peers {
 public:
  /// Forks processes 1, 2, ... of the case. Each of them runs the case with `run` and exits. The
  /// calling process is process 0 and must not have initialized a device. No-op if the case needs
  /// only one process.
  Peers(const Case& item, const RunAlone& run);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Waits for the other processes and merges their results into `mine`. The case fails if it fails
  /// in any process.
  Result merged(Result mine);

 private:
  struct Peer {
    pid_t pid;
    int pipe;
  };
  const Case& item_;
  std::vector<Peer> peers_;
  std::string file_;
};

}  // namespace anyaccel::conformance
