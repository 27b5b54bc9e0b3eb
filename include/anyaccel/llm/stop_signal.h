// Ctrl-C as a wish, not an end.
#pragma once

#include <atomic>

namespace anyaccel::llm {

/// While it lives, the first SIGINT or SIGTERM sets a flag; the same signal a second or more later ends the process as
/// usual. Within the second it is the same wish, which came on two ways (a launcher passes on what its process group
/// got). One at a time in a process; the former handlers come back at the end.
class StopSignal {
 public:
  enum class Watch {
    all,        ///< SIGINT and SIGTERM
    interrupt,  ///< SIGINT alone; SIGTERM does what it did
  };
  explicit StopSignal(Watch watch = Watch::all);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  const std::atomic<bool>* flag() const noexcept;
  /// Forgets the signals so far: the flag is false, and the next signal is the first again.
  void again();

 private:
  Watch watch_;
};

}  // namespace anyaccel::llm
