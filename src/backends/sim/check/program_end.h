// How the program ends, as far as out-of-memory errors are concerned: only the end shows whether the program handled one.
#pragma once

namespace anyaccel::backends::sim::checking {

enum class Uncaught {
  unknown,        ///< no exception is known to have ended the program
  out_of_memory,  ///< an out-of-memory error did, or an exception raised because of one
  other,
};

/// Calls `ended` once: at a normal exit after Python finalized, or when an uncaught C++ exception terminates the program.
/// `failed`: the exit status is not 0. Not called when a signal or _exit() ends the program. Call it once.
void watch_program_end(void (*ended)(bool failed, Uncaught uncaught));

/// Records the uncaught exception that Python printed. `out_of_memory` is 0 or 1.
void python_failed(int out_of_memory) noexcept;

}  // namespace anyaccel::backends::sim::checking
