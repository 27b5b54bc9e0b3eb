// Memory of requests that nobody waits for.
#pragma once

#include <memory>

namespace anyaccel::ops::aio {

class Request;

/// Starts the thread of release_later() where it is not running; throws std::system_error when it
/// cannot be made.
void ensure_release_thread();

/// Lets go of the memory of a request that is done, soon, unless who waits for it does so before.
/// On a thread that nothing waits for: freeing a tensor may need Python's lock, which the one who
/// waits for a worker or an engine may hold.
void release_later(std::shared_ptr<Request> request) noexcept;

}  // namespace anyaccel::ops::aio
