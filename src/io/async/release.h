// Releases the memory of requests that no thread waits for.
#pragma once

#include <memory>

namespace anyaccel::ops::aio {

class Request;

/// Starts the thread of release_later() if it is not running. Throws std::system_error if that
/// fails.
void ensure_release_thread();

/// Releases the memory of a completed request soon, unless Engine::wait() does so first. This runs
/// on a thread that nothing waits for: freeing a tensor may need Python's GIL, and a thread that
/// holds the GIL may be waiting for a worker or an engine.
void release_later(std::shared_ptr<Request> request) noexcept;

}  // namespace anyaccel::ops::aio
