// Events that a checker can observe. Each kind of event is reported from one place. Without an
// observer, an event costs one memory load.
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace anyaccel::backends::sim {

class SimStream;
namespace checking {
class Rows;
}

/// Memory that a kernel reads or writes. `tensor` is valid only during the call.
struct Operand {
  /// Address of the tensor's storage: on the device, or in the host's view of pinned memory.
  const void* address = nullptr;
  std::size_t bytes = 0;
  const c10::TensorImpl* tensor = nullptr;
  bool written = false;
  /// The rows that the kernel accesses; null if it accesses all of them.
  std::shared_ptr<checking::Rows> rows = nullptr;
};

/// One kernel that is being launched on a stream.
struct LaunchInfo {
  const char* op = "";  ///< "aten::add.out"; never freed
  c10::ArrayRef<Operand> operands = {};
  const void* graph = nullptr;  ///< identifies the graph that captures or replays this work
  std::uint64_t pool = 0;       ///< memory pool of the graph that captures this work
  bool replay = false;          ///< true if this launch replays `graph`
};

/// Checks one kernel. The functions are called on the thread that runs the kernel, just before and
/// just after each run.
class KernelWatch {
 public:
  virtual ~KernelWatch() = default;
  virtual void before() noexcept = 0;
  virtual void after() noexcept = 0;
};

/// Runs a kernel. `watch` may be null.
template <typename Function>
void run_watched(KernelWatch* watch, const Function& run) {
  if (watch != nullptr) watch->before();
  run();
  if (watch != nullptr) watch->after();
}

/// The simulator calls each function on the thread that causes the event, before the event takes
/// effect. If a lock orders the effects, the functions are called in the same order. They may throw
/// to reject the event, except on_free(). They must not launch work, and must not allocate or free
/// device memory. Waits that the simulator needs but hardware does not are not reported.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_launch(SimStream& /*stream*/, const LaunchInfo& /*info*/) {}
  /// Called after on_launch(), unless a graph is replayed. Returns null if the kernel is not
  /// checked.
  virtual std::unique_ptr<KernelWatch> watch_kernel(SimStream& /*stream*/,
                                                    const LaunchInfo& /*info*/) {
    return nullptr;
  }
  /// The program created a stream, and got this one from the pool.
  virtual void on_stream_create(SimStream& /*stream*/) noexcept {}
  /// Called after the allocation. From now on, work on `stream` may use the memory.
  virtual void on_allocate(const void* /*address*/, std::size_t /*bytes*/, SimStream& /*stream*/) {}
  /// The tensor's memory returns to the cache, where the next work on `stream` may get it
  /// immediately.
  virtual void on_free(const void* /*address*/, std::size_t /*bytes*/,
                       SimStream& /*stream*/) noexcept {}
  /// The allocation does not fit in the device's memory. An OutOfMemoryError follows, which the
  /// program may handle.
  virtual void on_out_of_memory(int /*device*/, std::size_t /*bytes*/) {}
  /// The program's call is an error on a GPU, too. An exception with the message `what` follows.
  virtual void on_reject(const std::string& /*what*/) {}
  virtual void on_record_stream(const void* /*address*/, std::size_t /*bytes*/,
                                SimStream& /*stream*/) {}
  /// The next launch on `stream` draws random numbers from the device's own generator. The program
  /// has never seeded that generator.
  virtual void on_unseeded_draw(SimStream& /*stream*/) {}
  /// The graph's work was destroyed, or its capture was abandoned. Called on any thread.
  virtual void on_graph_end(const void* /*graph*/) noexcept {}
  /// `record` identifies the recording. on_event_wait() and on_event_synchronize() get it, too.
  virtual void on_event_record(std::uint64_t /*record*/, SimStream& /*stream*/) {}
  virtual void on_event_wait(std::uint64_t /*record*/, SimStream& /*stream*/) {}
  /// A query found that the recording is not complete.
  virtual void on_event_incomplete() {}
  /// The host waits for the recording, or a query found it complete.
  virtual void on_event_synchronize(std::uint64_t /*record*/) {}
  virtual void on_stream_synchronize(SimStream& /*stream*/) {}
  virtual void on_device_synchronize(int /*device*/) {}
  /// A copy between pinned host memory and a device was queued, and the program continues without
  /// waiting for it. `host` is the host's view.
  virtual void on_pinned_copy(const Operand& /*host*/, SimStream& /*stream*/) {}
  /// Called when whole pages of pinned memory are allocated.
  virtual void on_pinned_allocate(const void* /*address*/, std::size_t /*bytes*/) {}
};

inline std::atomic<Observer*> current_observer{nullptr};

/// Null if there is none. There is at most one observer at a time. Observers are never destroyed.
inline Observer* observer() noexcept { return current_observer.load(std::memory_order_acquire); }
inline void set_observer(Observer* observer) noexcept {
  current_observer.store(observer, std::memory_order_release);
}

}  // namespace anyaccel::backends::sim
