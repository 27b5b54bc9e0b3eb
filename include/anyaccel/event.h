// Events: points in a stream that can be waited for and timed.
#pragma once

#include <memory>
#include <utility>

#include "anyaccel/export.h"
#include "anyaccel/stream.h"

namespace anyaccel {

namespace sdk {
class EventImpl;
}

/// A point in a stream. Copies refer to the same point. As in torch, an event that was never
/// recorded counts as complete.
///
/// Thread safety: as thread-safe as the backend's events. Record an event on one thread only.
///
///     auto start = accelerator.Event(true), end = accelerator.Event(true);
///     start.record();
///     y = at::matmul(a, b);
///     end.record();
///     end.synchronize();
///     const double milliseconds = start.elapsed_time(end);
class ANYACCEL_API Event {
 public:
  /// For backends. Programs call `Accelerator::Event()`.
  explicit Event(std::shared_ptr<sdk::EventImpl> impl) : impl_(std::move(impl)) {}

  /// Mark the end of the work that is queued on `stream` now.
  void record(const Stream& stream);
  /// Mark the end of the work that is queued on the accelerator's current stream now.
  void record();
  /// Make work that is queued on `stream` from now on wait for this event. Does not block the host.
  void wait(const Stream& stream) const;
  /// Make later work on the accelerator's current stream wait for this event.
  void wait() const;
  /// Return whether the marked work is complete.
  [[nodiscard]] bool query() const;
  /// Block the host until the marked work is complete.
  void synchronize() const;
  /// Return the milliseconds from this event to `end`. Throws `invalid_state` unless both events
  /// have timing, were recorded and are complete.
  double elapsed_time(const Event& end) const;

 private:
  std::shared_ptr<sdk::EventImpl> impl_;
};

}  // namespace anyaccel
