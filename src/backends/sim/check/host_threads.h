// Happens-before order of host threads. Each thread whose synchronization is observed has its own
// vector clock; locks, queues, starts and joins pass clocks from thread to thread. Does not use
// torch.
#pragma once

#include <pthread.h>

#include <memory>

#include "backends/sim/check/clocks.h"

namespace anyaccel::backends::sim::checking {

/// Kind of a host thread, which determines how much of its synchronization is observed.
enum class ThreadKind {
  open,     ///< unknown: its waits count for all threads, and it knows of the waits of all threads
  program,  ///< the main thread, and threads that the Python interpreter started
  library,  ///< threads of torch's autograd engine and of AnyAccel's collectives
};

/// Returns a different value for each thread, even if its clock reuses the address of an ended
/// thread's clock.
std::uint64_t first_version() noexcept;

/// A host thread and what it knows. Used only by that thread.
struct HostThread {
  ThreadKind kind = ThreadKind::open;
  ThreadId id = -1;  ///< index of this thread in vector clocks; -1 if it is open
  Clock clock;
  std::uint64_t version = first_version();  ///< incremented when the clock changes
  std::uint64_t seen_shared = 0;  ///< the version of the shared clock that this clock has merged
  bool passed = false;            ///< other threads may know the current time of this thread
};

/// The calling thread. If it was not started through start_of_child(), its kind is:
/// - program, if it is the main thread
/// - library, if threads are tracked and its name is that of a library thread
/// - open, otherwise
/// A thread whose thread_local objects have been destroyed is open.
HostThread& host_thread();

/// Called before a launch: gives the thread a new time if other threads may know the current one,
/// so that they do not count as knowing this launch.
void start_launch(HostThread& host) noexcept;

/// From now on, library threads are tracked, too. Until then, only the main thread and threads that
/// call adopt() are tracked.
void track_threads() noexcept;
bool threads_are_tracked() noexcept;

/// The clock that a new thread inherits. Called by the thread that starts it.
std::unique_ptr<Clock> start_of_child();
/// Makes the calling thread a program thread that knows `inherited`. Must be the first call on a
/// new thread.
void adopt(const Clock& inherited);

/// The calling thread released, or acquired, the lock or message that `address` identifies.
/// Different addresses may share a record, which may hide problems but never causes false reports.
void release_to(const void* address) noexcept;
void acquire_from(const void* address) noexcept;

/// The address that represents the end of a thread in acquire_from(). Only for threads that adopted
/// a clock.
const void* end_of(pthread_t thread) noexcept;

/// Like release_to() and acquire_from(), but for mutexes inside libraries. They pass on only what
/// library threads know or need to know, so that a lock within torch does not order the program's
/// own threads.
void release_library_mutex(const void* mutex) noexcept;
void acquire_library_mutex(const void* mutex) noexcept;

}  // namespace anyaccel::backends::sim::checking
