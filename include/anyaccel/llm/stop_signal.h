// Graceful shutdown on SIGINT and SIGTERM.
#pragma once

#include <atomic>
#include <chrono>

namespace anyaccel::llm {

/// While it lives, the first SIGINT or SIGTERM sets a flag instead of ending the process. The same signal a second or
/// more later ends the process; within the second it counts once, because a launcher passes on what its process group
/// got already. One object at a time in a process. The destructor restores the former handlers.
class StopSignal {
 public:
  enum class Watch {
    all,        ///< SIGINT and SIGTERM
    interrupt,  ///< SIGINT alone; SIGTERM does what it did
  };
  /// How long the process may go on after the first signal. When it is over and this object is neither destroyed nor
  /// renewed by again(), the signal ends the process, wherever it is blocked.
  using Patience = std::chrono::milliseconds;
  static constexpr Patience kNoLimit{0};
  /// For commands that have nothing to save: they end within a second.
  static constexpr Patience kShort{900};

  explicit StopSignal(Watch watch = Watch::all, Patience patience = kNoLimit);
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
