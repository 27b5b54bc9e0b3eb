// Why the accelerator communicates through what it does.
#pragma once

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// Why get_accelerator().communication_backend_name() is what it is, as one sentence: what was
/// found and tried where an accelerator has more than one way (the CPU: oneCCL where it starts,
/// else gloo). Empty where there is nothing to choose. The first call, of this or of that, finds
/// out; docs/explanation/communication-backend.md says what it costs. Thread-safe. Throws what
/// get_accelerator() throws.
ANYACCEL_API std::string communication_backend_reason();

}  // namespace anyaccel
