// Pinned memory of which a copy is on its way: the program's view is closed, so that touching it is
// a fault. No torch.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// Thread-safe. Whole pages are closed, for reading too when the copy writes to them. A tensor that
/// is only a part of its memory keeps those pages open that hold other parts as well.
class HostViews {
 public:
  /// `copy.region` are addresses of the program's view; `whole`: nothing else is in its memory.
  void close(const Use& copy, bool whole);
  /// Opens what the host has waited for.
  void open_known(const Detector& detector);
  /// Opens all in [address, address + bytes), for another user.
  void open(std::uintptr_t address, std::size_t bytes);
  /// The copy that a touch of `address` would disturb, and opens its pages; none for memory that is
  /// not closed.
  std::optional<Use> touched(std::uintptr_t address, bool writes);

  std::mutex& lock_for_fork() noexcept { return mutex_; }

 private:
  struct Closed {
    Use copy;
    std::uintptr_t low, high;  ///< whole pages
  };
  template <typename Done>
  void open_where(Done done);
  void protect(const Closed& closed) const;

  std::mutex mutex_;
  std::vector<Closed> closed_;
};

}  // namespace anyaccel::backends::sim::checking
