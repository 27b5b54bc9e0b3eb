// Suggests in which order to fix a backend's failures.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

/// The failures of one suite.
struct NextStep {
  std::string suite;
  std::string hint;                ///< what to implement; empty for suites of other projects
  std::vector<std::string> cases;  ///< full names, in the order of the report
  int required = 0;                ///< how many of them are required
};

/// Returns the suites with failures in the order in which to fix them. Suites with required
/// failures come first. Otherwise, each suite comes after the suites that it builds on.
std::vector<NextStep> next_steps(const Report& report);

}  // namespace anyaccel::conformance
