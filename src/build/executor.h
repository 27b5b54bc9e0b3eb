// Runs a plan.
#pragma once

#include "build/plan.h"

namespace anyaccel::build {

struct ExecuteOptions {
  int jobs = 1;
  bool verbose = false;         ///< print each command on standard error before it runs
  bool fatal_warnings = false;  ///< a compiler that says anything at all has failed
};

/// Compiles and links `plan`, whose folder exists. Throws `build_failed` with the compiler's own words and the command to
/// repeat it, `io` when the disk is full, and `timeout` (ANYACCEL_OP_BUILD_TIMEOUT).
void execute(const Plan& plan, const std::string& name, const ExecuteOptions& options);

/// The first line in which a program says that the disk or a quota is full; empty if there is none.
std::string full_disk_line(const std::string& text);

}  // namespace anyaccel::build
