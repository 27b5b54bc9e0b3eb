// Events: markers in streams that other streams and the host can wait for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

/// One recording of an event, shared by the stream's worker and all waiting threads.
class EventRecord {
 public:
  EventRecord(SimStream& stream, Capture* capture);
  std::uint64_t number() const noexcept { return number_; }
  SimStream& stream() const noexcept { return stream_; }
  /// The capture that recorded it, which may have ended; null if there was none.
  const void* capture() const noexcept { return capture_; }
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  void complete();
  void wait();
  /// Completion time in nanoseconds, from a steady clock.
  std::int64_t time() const noexcept { return time_; }

 private:
  SimStream& stream_;
  const void* capture_;
  const std::uint64_t number_;
  std::int64_t time_ = 0;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// The event that torch holds as void*. Keeps the last recording.
class SimEvent {
 public:
  explicit SimEvent(bool timing) : timing_(timing) {}
  bool timing() const noexcept { return timing_; }
  void record(SimStream& stream);
  /// Makes later work on `stream` wait for the last recording. A no-op if there is none.
  void wait(SimStream& stream) const;
  bool query() const;
  void synchronize() const;
  /// Returns the milliseconds from this event to `end`. Throws if either event was created without
  /// timing, was not recorded, or is not complete.
  double elapsed(const SimEvent& end) const;

 private:
  std::shared_ptr<EventRecord> last() const;
  const bool timing_;
  mutable std::mutex mutex_;
  std::shared_ptr<EventRecord> record_;
};

/// Queues a marker on `stream` and returns it. The simulator uses markers to order streams.
std::shared_ptr<EventRecord> record_mark(SimStream& stream);
/// Makes later work on `stream` wait for the marker.
void wait_mark(SimStream& stream, const std::shared_ptr<EventRecord>& record);

}  // namespace anyaccel::backends::sim
