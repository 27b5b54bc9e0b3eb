// Graceful shutdown on SIGINT and SIGTERM.
#pragma once

#include <atomic>
#include <chrono>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// Makes the first SIGINT or SIGTERM set a flag instead of terminating the process. If the same
/// signal arrives again at least one second later, it terminates the process. Repetitions within
/// that second are ignored, because a launcher forwards signals that its process group has already
/// received. At most one object may exist at a time. The destructor restores the previous handlers.
///
///     StopSignal signal;
///     trainer.run({}, signal.flag());
class ANYACCEL_API StopSignal {
 public:
  /// Signals to handle.
  enum class Watch {
    all,        ///< SIGINT and SIGTERM
    interrupt,  ///< SIGINT only; SIGTERM keeps its handler
  };
  /// Grace period after the first signal. If it expires before this object is destroyed or reset by
  /// again(), the process is terminated, even if it is blocked.
  using Patience = std::chrono::milliseconds;
  /// No limit: only a second signal terminates the process.
  static constexpr Patience kNoLimit{0};
  /// Grace period for commands without state to save. They must exit within a second.
  static constexpr Patience kShort{900};

  /// Install the handlers.
  explicit StopSignal(Watch watch = Watch::all, Patience patience = kNoLimit);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Flag that the signal sets. It remains valid until the process exits.
  const std::atomic<bool>* flag() const noexcept;
  /// Reset the flag. The next signal counts as the first.
  void again();

 private:
  Watch watch_;
};

}  // namespace anyaccel::llm
