// Observes the parts of Python's standard library that pass values between threads without a lock
// that they always take: queue.SimpleQueue, the work items of ThreadPoolExecutor, and
// threading.Event.is_set(). No torch.
#pragma once

namespace anyaccel::backends::sim::checking {

/// Called by the thread that gets, or gives up, what `address` stands for.
using PassFunction = void (*)(const void* address) noexcept;

/// Starts observing once per process, if the calling thread runs Python. Otherwise does nothing;
/// call it again later.
void watch_python_queues(PassFunction acquire, PassFunction release);

}  // namespace anyaccel::backends::sim::checking
