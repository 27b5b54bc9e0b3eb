// Errors of ops that say which kind they are. In Python torch makes each a RuntimeError before our own module sees it, so the
// op's Python file asks for the kind and raises anyaccel.Error.
#pragma once

#include "anyaccel/error.h"

namespace anyaccel::ops {

/// The code of the last Error that this thread made in this library.
ErrorCode last_error_code() noexcept;

}  // namespace anyaccel::ops
