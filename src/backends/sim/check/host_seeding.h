// Detects that the program seeded a random number generator of the host: torch's, Python's or
// NumPy's.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "backends/sim/check/stack.h"

namespace anyaccel::backends::sim::checking {

struct HostSeeding {
  std::string generator;       ///< such as "Python's random module"
  std::optional<Stack> stack;  ///< the call that seeded it, if it was observed
};

/// Starts watching. Another call also watches the Python modules that have been imported since.
/// Seeding is detected from now on.
void watch_host_seeding();

/// Returns one generator that the program seeded, preferably one whose seeding was observed.
/// Thread-safe. The first call asks Python, so a stream's worker must not call it.
std::optional<HostSeeding> find_host_seeding();

/// Ignores earlier seeding.
void forget_host_seeding();

/// The lock to hold during fork().
std::mutex& host_seeding_lock_for_fork() noexcept;

}  // namespace anyaccel::backends::sim::checking
