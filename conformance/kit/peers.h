// The other processes of a case that wants several.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "worker.h"

namespace anyaccel::conformance {

/// Runs one case in the process that it is called in.
using RunAlone = std::function<Result(const Case&)>;

class Peers {
 public:
  /// Forks processes 1, 2, ... of the case; each runs it with `run` and ends. The calling process is number 0 and must not have
  /// started a device. For a case of one process nothing happens.
  Peers(const Case& item, const RunAlone& run);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Waits for the others; the case passes when it passed in all processes.
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
