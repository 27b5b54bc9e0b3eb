// Reason for the choice of the communication backend.
#pragma once

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// Return one sentence that explains the value of get_accelerator().communication_backend_name()
/// and names the backends that were found and tested. The CPU uses oneCCL if it starts, otherwise
/// gloo. Empty if the accelerator has only one backend.
///
/// The first call of this function or of communication_backend_name() makes the choice, which can
/// take a second and start a process; see docs/explanation/communication-backend.md. Throws the
/// same errors as get_accelerator(). Thread-safe.
ANYACCEL_API std::string communication_backend_reason();

}  // namespace anyaccel
