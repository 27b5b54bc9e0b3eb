// Protects the program's view of pinned memory while a copy is in flight, so that an access causes
// a fault. Does not use torch.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// Thread-safe. Protects ("closes") whole pages: against writes, and also against reads if the copy
/// writes to them. If a tensor covers only a part of its memory, pages that it shares with other
/// data stay open; touched(region) finds accesses there.
class HostViews {
 public:
  /// Closes the pages of a copy. `copy.region` has addresses of the program's view. `whole`: the
  /// copy covers all of the memory.
  void close(const Use& copy, bool whole);
  /// Opens the pages of copies that the host has waited for.
  void open_known(const Detector& detector);
  /// Opens all pages in [address, address + bytes), because the memory is allocated again.
  void open(std::uintptr_t address, std::size_t bytes);
  /// Opens the pages at `address` and returns the copy that the access conflicts with; nullopt if
  /// there is none.
  std::optional<Use> touched(std::uintptr_t address, bool writes);
  /// True if a partial copy (one that covers only part of its memory) may be in flight. Lock-free.
  bool has_parts() const noexcept { return parts_.load(std::memory_order_relaxed) != 0; }
  /// Like touched(address), but for code that accesses `region`. Finds only partial copies.
  std::optional<Use> touched(const Region& region, bool writes);

  /// True if a partial copy covers [address, address + bytes) and may be in flight.
  bool covered(std::uintptr_t address, std::size_t bytes);
  /// Protects a second view of [address, address + bytes), which is mapped at `view`, in the same
  /// way as the whole pages of the copy that covers it.
  void guard(std::uintptr_t view, std::uintptr_t address, std::size_t bytes);
  /// Forgets a second view, which the caller unmaps.
  void forget(std::uintptr_t view);
  /// True for addresses in a second view. Lock-free if there never was one.
  bool in_second_view(std::uintptr_t address);

  std::mutex& lock_for_fork() noexcept { return mutex_; }

 private:
  struct Closed {
    Use copy;
    std::uintptr_t low, high;  ///< range of whole pages; may be empty for a partial copy
    bool part;                 ///< the copy covers only part of its memory
  };
  struct Range {
    std::uintptr_t low, high;
  };
  template <typename Done>
  void open_where(Done done);
  const Closed* covering(std::uintptr_t address, std::size_t bytes) const;
  void protect(const Closed& closed) const;

  std::mutex mutex_;
  std::vector<Closed> closed_;
  std::vector<Range> second_views_;
  std::atomic<std::size_t> parts_{0};
  std::atomic<bool> had_second_view_{false};
};

}  // namespace anyaccel::backends::sim::checking
