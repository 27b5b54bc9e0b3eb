// Detects how the program ends. Only the end shows whether the program handled an out-of-memory
// error.
#pragma once

namespace anyaccel::backends::sim::checking {

enum class Uncaught {
  unknown,        ///< no exception is known to have ended the program
  out_of_memory,  ///< an out-of-memory error, or an exception raised because of one, ended it
  other,
};

/// Registers `ended`, which is called once: at a normal exit after Python's finalization, or when
/// an uncaught C++ exception terminates the program. It is not called when a signal or _exit() ends
/// the program. `failed`: the exit status is not 0. Must be called at most once.
void watch_program_end(void (*ended)(bool failed, Uncaught uncaught));

/// Records the uncaught exception that Python printed. `out_of_memory` is 0 or 1.
void python_failed(int out_of_memory) noexcept;

}  // namespace anyaccel::backends::sim::checking
