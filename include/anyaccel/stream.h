// Streams: queues of work in order. On a synchronous device a stream is an identity.
#pragma once

#include <c10/core/Stream.h>

#include "anyaccel/device.h"
#include "anyaccel/export.h"

namespace anyaccel {

class Event;

/// A stream of the accelerator: a value, cheap to copy, comparable. It names a queue that the
/// backend owns; the queue lives as long as the process. Thread-safe as far as torch's stream is.
class ANYACCEL_API Stream {
 public:
  /// `index` is our device index, which on devices without indexed names torch's object does not
  /// carry.
  Stream(c10::Stream stream, DeviceIndex index) : stream_(stream), index_(index) {}

  c10::StreamId id() const noexcept { return stream_.id(); }
  DeviceIndex device_index() const noexcept { return index_; }
  /// torch's object, for APIs that want one (`tensor.record_stream(s.unwrap())`).
  c10::Stream unwrap() const noexcept { return stream_; }

  /// True when all work queued so far is done. Always true on a synchronous device.
  [[nodiscard]] bool query() const;
  /// Blocks the host until the work queued so far is done; throws `device_error` where that work
  /// failed.
  void synchronize() const;
  /// Work queued on this stream from now on waits for `event`. Returns at once.
  void wait_event(const Event& event) const;
  /// Work queued on this stream from now on waits for what `other` holds now.
  void wait_stream(const Stream& other) const;
  /// A new event recorded here. `enable_timing` as in `Accelerator::Event`.
  Event record_event(bool enable_timing = false) const;
  /// The vendor's handle (cudaStream_t, ...). Throws `unsupported` where there is none.
  void* native_handle() const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept {
    return a.stream_ == b.stream_ && a.index_ == b.index_;
  }

 private:
  c10::Stream stream_;
  DeviceIndex index_;
};

/// Makes a stream current on this thread, with its device, and puts both back at the end of the
/// scope. What `with get_accelerator().stream(s):` is in Python.
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
