// Errors of ops with an error code. Torch turns each into a RuntimeError before our Python module
// sees it, so the op's Python file queries the code and raises anyaccel.Error.
#pragma once

#include <cstdint>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::ops {

/// Returns the code of a recent Error with this message that this library created on any thread; -1
/// if there was none.
std::int64_t error_code_of(const std::string& message) noexcept;

}  // namespace anyaccel::ops
