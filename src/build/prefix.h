// Where what an op is built with lies, when it is not the system's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"

namespace anyaccel::build {

/// The prefix of an op whose description has a `prefix_variable`: the variable's value; when that
/// is not set, the first of prefix_candidates() in which all its headers and libraries lie. Empty
/// when there is none.
ANYACCEL_API std::string prefix_of(const Description& op);

/// Where packages of Python or of a vendor put such things: the active virtual environment
/// (VIRTUAL_ENV), that of the Python which runs this process, those in which LibTorch and this
/// library lie, and the description's own `prefix` lines. Nothing is run.
std::vector<std::filesystem::path> prefix_candidates(const Description& op);

}  // namespace anyaccel::build
