// Runs the processes of `anyaccel profile`: the program, and the measurement and report after it.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/error.h"

namespace anyaccel::cli {

/// Runs the command `words` and waits until it exits. Returns the status from waitpid(). Throws
/// `failure` if the command cannot be started. `seconds`: time limit after which the process is
/// killed; 0 means no limit.
int run_and_wait(std::vector<std::string> words, ErrorText failure, unsigned seconds = 0);

/// Runs a command after the program has exited. Returns whether it succeeded. Prints an error
/// instead of throwing it, because the exit code is the program's.
bool run_afterwards(std::vector<std::string> words, ErrorText failure, unsigned seconds = 0);

/// Returns whether this process has received SIGTERM or SIGHUP and forwarded it.
bool asked_to_end();

/// Returns the program's exit code. If a signal killed the program, kills this process with the
/// same signal.
int end_like(int status);

}  // namespace anyaccel::cli
