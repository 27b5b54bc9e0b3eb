// Runs a program and terminates every process that it starts.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "launch/environment_file.h"

namespace anyaccel::launch {

struct ContainedProgram {
  bool timed_out = false;  ///< the time limit ended the program
  int exit_code = 0;       ///< exit code, or 128 + N if signal N ended the program
  std::string output;      ///< end of its standard output and error, up to 64 KiB
};

/// Runs a program in its own process group with empty standard input, and waits until it and all
/// of its descendants have exited. Kills the program after `seconds`. Terminates descendants that
/// are still running when the program has exited, including daemons and processes in other
/// sessions, also if this process dies. `environment` is added to this process's own. Not
/// reentrant; the process must have only one thread. Throws `unavailable` if it cannot start the
/// program.
ANYACCEL_API ContainedProgram run_contained(const std::vector<std::string>& command,
                                            const Variables& environment, double seconds);

}  // namespace anyaccel::launch
