// Cancellation of long waits, for language bindings. Does not need torch.
#pragma once

#include "anyaccel/export.h"

namespace anyaccel {

/// Return whether the process should stop waiting. In Python, this means that a signal handler
/// raised an exception. Must be callable from any thread.
using InterruptCheck = bool (*)();

/// Set the check that waits poll about ten times per second, for example while this or another
/// process builds an op. Null (the default) disables polling, so signals have the effect that the
/// program defines. Language bindings call this once at start-up. Thread-safe.
ANYACCEL_API void set_interrupt_check(InterruptCheck check) noexcept;

/// Call the check, if one is set. If it returns true, throws `interrupted` with a message that
/// names `where` as the interrupted function.
ANYACCEL_API void throw_if_interrupted(const char* where);

}  // namespace anyaccel
