// Protects the program's view of pinned memory while a copy is in flight, so that an access causes
// a fault. No torch.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// Thread-safe. Protects ("closes") whole pages: against writes, and also against reads if the copy
/// writes to them. If a tensor covers only a part of its memory, pages that it shares with other
/// data stay open.
class HostViews {
 public:
  /// Closes the pages of a copy. `copy.region` has addresses of the program's view. `whole`: the
  /// copy covers all of the memory.
  void close(const Use& copy, bool whole);
  /// Opens the pages of copies for which the host has waited.
  void open_known(const Detector& detector);
  /// Opens all pages in [address, address + bytes), because the memory is allocated again.
  void open(std::uintptr_t address, std::size_t bytes);
  /// Opens the pages at `address` and returns the copy with which the access conflicts; nullopt if
  /// there is none.
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
