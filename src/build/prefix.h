// Finds the prefix of vendor headers and libraries that are not in the system folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"

namespace anyaccel::build {

/// Returns the prefix of an op whose description has a `prefix_variable`: the variable's value if
/// it is set, otherwise the first of prefix_candidates() that contains all headers and libraries
/// that the description requires. Returns an empty string if there is no such prefix.
ANYACCEL_API std::string prefix_of(const Description& op);

/// Returns candidates for the prefix of a Python package or a vendor package: the active virtual
/// environment (VIRTUAL_ENV), the virtual environment of the Python that runs this process, the
/// virtual environments that contain LibTorch and AnyAccel, and the `prefix` lines of the
/// description. Does not run programs.
std::vector<std::filesystem::path> prefix_candidates(const Description& op);

}  // namespace anyaccel::build
