// Watches three kinds of events through Python: torch's Python code rejects other accelerators'
// devices before it calls the library, only the interpreter knows which exception ended the
// program, and tolist() and numpy() access memory without calling an op. Does not use torch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anyaccel::backends::sim::checking {

/// Called with the name of a device type that is not available, such as "xpu" for torch.xpu or
/// torch.autocast("xpu"), on the thread that used the type.
using NameFunction = void (*)(const char* device_type);

/// Called if an uncaught exception ended the interpreter's main thread, with 1 if an out-of-memory
/// error caused it, else 0.
using UncaughtFunction = void (*)(int out_of_memory);

/// Called before the host reads [address, address + bytes) without an op.
using ReadFunction = void (*)(std::uintptr_t address, std::size_t bytes);

/// Called before the program gets an array of [address, address + bytes). Returns the address that
/// the array should use in its place; 0 for the same address.
using MapFunction = std::uintptr_t (*)(std::uintptr_t address, std::size_t bytes);

/// Called when no array uses the address that MapFunction returned.
using UnmapFunction = void (*)(std::uintptr_t address, std::size_t bytes);

struct PythonCallbacks {
  NameFunction refused = nullptr;
  UncaughtFunction uncaught = nullptr;
  ReadFunction read = nullptr;
  MapFunction map = nullptr;
  UnmapFunction unmap = nullptr;
};

/// Watches uncaught exceptions, torch's modules for device types other than `own`, and the methods
/// tolist() and numpy() of tensors. Returns false if torch is not imported yet; call it again
/// later. Returns true in programs without Python.
bool watch_python(const char* own, const PythonCallbacks& callbacks);

}  // namespace anyaccel::backends::sim::checking
