// The other processes of a case that runs in several processes.
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
  /// Forks processes 1, 2, ... of the case. Each runs the case with `run` and exits. The calling
  /// process is number 0 and must not have started a device. No-op for a case of one process.
  Peers(const Case& item, const RunAlone& run);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Waits for the others. The case passes if it passes in all processes.
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
