// Makes fork() safe in multithreaded programs. Otherwise, a lock that another thread holds would
// stay locked in the child.
#pragma once

#include <mutex>

namespace anyaccel::backends::sim {

/// The lock order. A thread that holds a lock may acquire only locks that come later.
enum class ForkOrder {
  memory,   ///< may be held while waiting for streams, whose workers acquire the locks below
  outer,    ///< may be held while the observer is called
  views,    ///< the checker's host views; the next two also belong to the checker
  history,  ///< the detector's history of accesses
  reports,
  inner,  ///< acquired last and held briefly
};

/// Makes fork() acquire `mutex` before it copies the process, and release it in both processes. A
/// lock that is not free within five seconds, for example because the forking thread holds it, is
/// skipped. `mutex` must never be destroyed. Thread-safe.
void hold_at_fork(std::mutex& mutex, ForkOrder order);

/// A mutex that fork() acquires. It must never be destroyed.
struct HeldAtFork : std::mutex {
  explicit HeldAtFork(ForkOrder order) { hold_at_fork(*this, order); }
};

}  // namespace anyaccel::backends::sim
