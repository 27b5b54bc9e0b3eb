// fork() beside other threads: the child gets a copy of every lock, and nobody who would open those
// that are closed.
#pragma once

#include <mutex>

namespace anyaccel::backends::sim {

/// In this order locks are taken; a thread that holds one takes only later ones.
enum class ForkOrder {
  memory,   ///< may wait for streams meanwhile, so those who do their work must still get theirs
  outer,    ///< may be held while the checker is told
  views,    ///< the checker's, from here on
  history,  ///< of uses of memory
  reports,
  inner,  ///< taken last and held shortly
};

/// From now on fork() takes `mutex` before it copies the process, and opens it in both. A lock that
/// does not come free within five seconds, perhaps because the forking thread holds it, is left as
/// it is. `mutex` lives for ever. Thread-safe.
void hold_at_fork(std::mutex& mutex, ForkOrder order);

/// For a lock of static life in one line: a mutex that fork() holds.
struct HeldAtFork : std::mutex {
  explicit HeldAtFork(ForkOrder order) { hold_at_fork(*this, order); }
};

}  // namespace anyaccel::backends::sim
