// Releases the memory of requests that nobody waits for.
#pragma once

#include <memory>

namespace anyaccel::ops::aio {

class Request;

/// Starts the thread of release_later() if it is not running. Throws std::system_error if that
/// fails.
void ensure_release_thread();

/// Releases the memory of a completed request soon, unless Engine::wait() does it first. Uses a
/// thread that nothing waits for: freeing a tensor may need Python's lock, which a thread that
/// waits for a worker or an engine may hold.
void release_later(std::shared_ptr<Request> request) noexcept;

}  // namespace anyaccel::ops::aio
