// Makes fork() safe next to other threads. Otherwise, a lock that another thread holds would stay
// locked in the child.
#pragma once

#include <mutex>

namespace anyaccel::backends::sim {

/// The lock order. A thread that holds a lock acquires only later ones.
enum class ForkOrder {
  memory,   ///< may be held while waiting for streams, whose workers must still get their locks
  outer,    ///< may be held while the observer is called
  views,    ///< the checker's views; the next two are the checker's too
  history,  ///< uses of memory
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
