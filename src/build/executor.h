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
/// repeat it, and `io` when the disk is full.
void execute(const Plan& plan, const std::string& name, const ExecuteOptions& options);

}  // namespace anyaccel::build
