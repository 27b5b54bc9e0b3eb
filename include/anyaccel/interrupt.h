// How long waits of AnyAccel ask whether they should end. Needs no torch.
#pragma once

#include "anyaccel/export.h"

namespace anyaccel {

/// True when what runs this process wants its waits to end: in Python, when a signal's handler
/// raised. Called from any thread.
using InterruptCheck = bool (*)();

/// The question that waits ask about ten times a second: for a build of an op, another process's or
/// our own. None (the default) means that nobody is asked; a signal then does what the program
/// makes of it. Language bindings set it once, when they start. Thread-safe.
ANYACCEL_API void set_interrupt_check(InterruptCheck check) noexcept;

/// Asks it; throws `interrupted`, naming `where`, when it says so.
ANYACCEL_API void throw_if_interrupted(const char* where);

}  // namespace anyaccel
