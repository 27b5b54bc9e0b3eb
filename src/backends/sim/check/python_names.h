// Watches two kinds of events through Python: torch's Python code rejects other accelerators'
// devices before it calls the library, and only the interpreter knows which exception ended the
// program. No torch.
#pragma once

namespace anyaccel::backends::sim::checking {

/// Called with the name of a device type that is not available, such as "xpu" for torch.xpu, on the
/// thread that used the type.
using NameFunction = void (*)(const char* device_type);

/// Called if an uncaught exception ended the interpreter's main thread, with 1 if an out-of-memory
/// error caused it, else 0.
using UncaughtFunction = void (*)(int out_of_memory);

/// Watches uncaught exceptions, and torch's modules for device types other than `own`. Returns
/// false if torch is not imported yet; call it again later. Returns true in programs without
/// Python.
bool watch_python(const char* own, NameFunction refused, UncaughtFunction uncaught);

}  // namespace anyaccel::backends::sim::checking
