// What only Python sees: torch's Python code refuses other accelerators' devices before it calls the library, and the
// interpreter knows which exception ended the program. No torch.
#pragma once

namespace anyaccel::backends::sim::checking {

/// Called with a device type's name, such as that of a module of torch, on the thread that asked for it.
using NameFunction = void (*)(const char* device_type);

/// Called when an uncaught exception ends the interpreter's main thread, with 1 if running out of memory caused it, else 0.
using UncaughtFunction = void (*)(int out_of_memory);

/// Watches torch's modules of device types other than `own`, and uncaught exceptions. Returns false if torch is not imported
/// yet: try again later. Returns true without Python.
bool watch_python(const char* own, NameFunction refused, UncaughtFunction uncaught);

}  // namespace anyaccel::backends::sim::checking
