// Op errors that carry an error code. Torch converts them to RuntimeError before our Python module
// sees them, so the op's Python file queries the code and raises anyaccel.Error.
#pragma once

#include <cstdint>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::ops {

/// Returns the code of the most recent Error with this message that this library has created on any
/// thread, or -1 if it is not recorded.
std::int64_t error_code_of(const std::string& message) noexcept;

}  // namespace anyaccel::ops
