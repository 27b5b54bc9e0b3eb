// Streams: queues of work that runs in order. On a synchronous device, a stream is only an id,
// because work is complete when a call returns.
#pragma once

#include <c10/core/Stream.h>

#include "anyaccel/device.h"
#include "anyaccel/export.h"

namespace anyaccel {

class Event;

/// A stream of the accelerator: a comparable value that is cheap to copy. It names a queue that the
/// backend owns and that exists until the process exits. As thread-safe as torch's streams.
///
///     auto side = accelerator.Stream();
///     side.wait_stream(accelerator.current_stream());
///     {
///       const auto guard = accelerator.stream(side);
///       y = at::matmul(a, b);  // runs on the side stream
///     }
///     accelerator.current_stream().wait_stream(side);
class ANYACCEL_API Stream {
 public:
  /// Wrap a torch stream. `index`: device index, passed separately because a torch stream has none
  /// if device names have no index.
  Stream(c10::Stream stream, DeviceIndex index) : stream_(stream), index_(index) {}

  /// Id of the stream on its device, as in torch.
  c10::StreamId id() const noexcept { return stream_.id(); }
  /// Index of the stream's device.
  DeviceIndex device_index() const noexcept { return index_; }
  /// The torch stream, for functions that need one (`tensor.record_stream(s.unwrap())`).
  c10::Stream unwrap() const noexcept { return stream_; }

  /// Return whether all work queued so far is complete. Always true on a synchronous device.
  [[nodiscard]] bool query() const;
  /// Block the host until the work queued so far is complete. Throws `device_error` if that work
  /// failed.
  void synchronize() const;
  /// Make work that is queued on this stream after this call wait for `event`. Does not block the
  /// host.
  void wait_event(const Event& event) const;
  /// Make work that is queued on this stream after this call wait for the work that was queued on
  /// `other` before this call. Does not block the host.
  void wait_stream(const Stream& other) const;
  /// Create an event and record it on this stream. `enable_timing`: see `Accelerator::Event()`.
  Event record_event(bool enable_timing = false) const;
  /// The vendor's handle (cudaStream_t, ...). Throws `unsupported` if the device has none.
  void* native_handle() const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept {
    return a.stream_ == b.stream_ && a.index_ == b.index_;
  }

 private:
  c10::Stream stream_;
  DeviceIndex index_;
};

/// Makes a stream and its device current on this thread, and restores both on destruction. The
/// counterpart of Python's `with get_accelerator().stream(s):`.
class ANYACCEL_API StreamGuard {
 public:
  StreamGuard(Accelerator& accelerator, const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Accelerator& accelerator_;
  DeviceIndex previous_device_;
  Stream previous_;
};

}  // namespace anyaccel
