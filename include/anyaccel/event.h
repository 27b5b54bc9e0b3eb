// Events: marks in a stream that can be waited for and timed.
#pragma once

#include <memory>
#include <utility>

#include "anyaccel/export.h"
#include "anyaccel/stream.h"

namespace anyaccel {

namespace sdk {
class EventImpl;
}

/// A mark in a stream. Copies share the mark. Before `record` an event counts as done, as torch's
/// do. Thread-safe as far as the backend's events are; record on one thread.
class ANYACCEL_API Event {
 public:
  /// For backends and `Accelerator::Event`.
  explicit Event(std::shared_ptr<sdk::EventImpl> impl) : impl_(std::move(impl)) {}

  /// Marks the end of what `stream` holds now; none given: the accelerator's current stream.
  void record(const Stream& stream);
  void record();
  /// Work queued on `stream` (or the current one) from now on waits for this event.
  void wait(const Stream& stream) const;
  void wait() const;
  /// True when the marked work is done.
  [[nodiscard]] bool query() const;
  /// Blocks the host until the marked work is done.
  void synchronize() const;
  /// Milliseconds from this event to `end`. Both need timing, must be recorded and done;
  /// otherwise `invalid_state`.
  double elapsed_time(const Event& end) const;

 private:
  std::shared_ptr<sdk::EventImpl> impl_;
};

}  // namespace anyaccel
