// Explains why a communication backend was chosen.
#pragma once

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// Return one sentence that explains the value of get_accelerator().communication_backend_name()
/// and names the backends that were found and tested. On the CPU, oneCCL is chosen if it starts,
/// otherwise gloo. Returns an empty string if the accelerator has only one backend.
///
/// The first call to this function or to communication_backend_name() makes the choice, which can
/// take a second and start a process; see docs/explanation/communication-backend.md. Throws the
/// same errors as get_accelerator(). Thread-safe.
ANYACCEL_API std::string communication_backend_reason();

}  // namespace anyaccel
