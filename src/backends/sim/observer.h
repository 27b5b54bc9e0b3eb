// What a checker can watch. Each kind of event is reported from one place; without an observer that
// is one load.
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace anyaccel::backends::sim {

class SimStream;

/// Memory that a kernel reads or writes. `tensor` is only there during the call.
struct Operand {
  const void* address =
      nullptr;  ///< of the tensor's storage: on the device, or the host's view of pinned memory
  std::size_t bytes = 0;
  const c10::TensorImpl* tensor = nullptr;
  bool written = false;
};

/// One kernel on its way to a stream.
struct LaunchInfo {
  const char* op = "";  ///< "aten::add.out"; lives for ever
  c10::ArrayRef<Operand> operands = {};
  const void* graph = nullptr;  ///< names the graph that captures this work, or that is replayed
  std::uint64_t pool = 0;       ///< memory pool of the graph that captures this work
  bool replay = false;          ///< all work of `graph` runs now
};

/// Functions are called on the thread that makes the call, before it has an effect, and in the
/// order of the effects where one lock orders them. They may throw to refuse it, but in on_free.
/// They must not launch, allocate or free device memory. Waits that only the simulator needs, and
/// hardware would not have, are not told.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_launch(SimStream& /*stream*/, const LaunchInfo& /*info*/) {}
  /// After it: the memory belongs to work of `stream`.
  virtual void on_allocate(const void* /*address*/, std::size_t /*bytes*/, SimStream& /*stream*/) {}
  /// The tensor's memory goes back to the cache, and may be given to `stream`'s next work at once.
  virtual void on_free(const void* /*address*/, std::size_t /*bytes*/,
                       SimStream& /*stream*/) noexcept {}
  /// The allocation does not fit the device's memory. An OutOfMemoryError follows, which the
  /// program may handle.
  virtual void on_out_of_memory(int /*device*/, std::size_t /*bytes*/) {}
  virtual void on_record_stream(const void* /*address*/, std::size_t /*bytes*/,
                                SimStream& /*stream*/) {}
  /// The graph's work is gone, or its capture was abandoned; on any thread.
  virtual void on_graph_end(const void* /*graph*/) noexcept {}
  /// `record` names what was recorded; a wait on the event names the same number.
  virtual void on_event_record(std::uint64_t /*record*/, SimStream& /*stream*/) {}
  virtual void on_event_wait(std::uint64_t /*record*/, SimStream& /*stream*/) {}
  /// The host waits, or a query told it that the work is done.
  virtual void on_event_synchronize(std::uint64_t /*record*/) {}
  virtual void on_stream_synchronize(SimStream& /*stream*/) {}
  virtual void on_device_synchronize(int /*device*/) {}
  /// A copy between pinned host memory and a device was queued, and the program goes on without
  /// waiting for it. `host` is the host's view.
  virtual void on_pinned_copy(const Operand& /*host*/, SimStream& /*stream*/) {}
  /// Whole pages of pinned memory are given to a new user.
  virtual void on_pinned_allocate(const void* /*address*/, std::size_t /*bytes*/) {}
};

inline std::atomic<Observer*> current_observer{nullptr};

/// Null for none. One at a time; it lives for ever.
inline Observer* observer() noexcept { return current_observer.load(std::memory_order_acquire); }
inline void set_observer(Observer* observer) noexcept {
  current_observer.store(observer, std::memory_order_release);
}

}  // namespace anyaccel::backends::sim
