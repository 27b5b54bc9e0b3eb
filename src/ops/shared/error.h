// Errors of ops that say which kind they are. In Python torch makes each a RuntimeError before our
// own module sees it, so the op's Python file asks for the kind and raises anyaccel.Error.
#pragma once

#include <cstdint>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::ops {

/// The code of an Error with this message that this library made lately, on any thread; -1 when
/// there was none.
std::int64_t error_code_of(const std::string& message) noexcept;

}  // namespace anyaccel::ops
