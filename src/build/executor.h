// Runs the commands in a plan.
#pragma once

#include "build/plan.h"

namespace anyaccel::build {

struct ExecuteOptions {
  int jobs = 1;
  bool verbose = false;         ///< print each command on standard error before running it
  bool fatal_warnings = false;  ///< treat any compiler output as a failure
};

/// Compiles and links `plan`, whose folder must exist. Throws `build_failed` with the compiler's
/// output and the command to reproduce it, `io` if the disk is full, and `timeout` after
/// ANYACCEL_OP_BUILD_TIMEOUT seconds.
void execute(const Plan& plan, const std::string& name, const ExecuteOptions& options);

/// Returns the first line of a program's output that reports a full disk or quota, or an empty
/// string if there is none.
std::string full_disk_line(const std::string& text);

}  // namespace anyaccel::build
