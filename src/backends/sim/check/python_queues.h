// Observes the parts of Python's standard library that pass values between threads without always
// taking a lock: queue.SimpleQueue, the work items of ThreadPoolExecutor, and
// threading.Event.is_set(). Does not use torch.
#pragma once

namespace anyaccel::backends::sim::checking {

/// Called by the thread that acquires, or releases, the object that `address` identifies.
using PassFunction = void (*)(const void* address) noexcept;

/// Starts observing once per process, if the calling thread runs Python. Otherwise does nothing;
/// call it again later.
void watch_python_queues(PassFunction acquire, PassFunction release);

}  // namespace anyaccel::backends::sim::checking
