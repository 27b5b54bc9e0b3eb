// Cancellation of long waits, for language bindings. This header does not depend on torch.
#pragma once

#include "anyaccel/export.h"

namespace anyaccel {

/// Callback that returns true if the process should stop waiting. In Python, it returns true if a
/// signal handler raised an exception. Must be callable from any thread.
using InterruptCheck = bool (*)();

/// Set the callback that blocking calls poll about ten times per second while they wait, for
/// example for an op to be built. Null (the default) disables polling, and signals are left to the
/// program's own handlers. Language bindings call this once at start-up. Thread-safe.
ANYACCEL_API void set_interrupt_check(InterruptCheck check) noexcept;

/// Call the callback set with set_interrupt_check(), if any. If it returns true, throws
/// `interrupted` with a message that names `where` as the interrupted function.
ANYACCEL_API void throw_if_interrupted(const char* where);

}  // namespace anyaccel
