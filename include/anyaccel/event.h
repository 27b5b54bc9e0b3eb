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

  /// Mark the end of the work queued on `stream` so far.
  void record(const Stream& stream);
  /// Mark the end of the work queued on the accelerator's current stream so far.
  void record();
  /// Make work that is queued on `stream` after this call wait for this event. Does not block the
  /// host.
  void wait(const Stream& stream) const;
  /// Make work that is queued on the accelerator's current stream after this call wait for this
  /// event.
  void wait() const;
  /// Return whether the work before the event is complete.
  [[nodiscard]] bool query() const;
  /// Block the host until the work before the event is complete.
  void synchronize() const;
  /// Return the milliseconds from this event to `end`. Throws `invalid_state` unless both events
  /// have timing enabled, were recorded and are complete.
  double elapsed_time(const Event& end) const;

 private:
  std::shared_ptr<sdk::EventImpl> impl_;
};

}  // namespace anyaccel
