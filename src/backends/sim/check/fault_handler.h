// Distinguishes faults in memory that the simulator protects from other crashes of the program.
// Does not use torch.
#pragma once

#include <cstdint>

namespace anyaccel::backends::sim::checking {

/// Called on the thread that faulted. Returns true if the memory is accessible now, so that the
/// access is retried, or false to call the previous SIGSEGV handler.
using FaultFunction = bool (*)(std::uintptr_t address, bool writes);

/// Installs the handler. Must be called once per process. Handlers that are installed later run
/// first.
void handle_faults(FaultFunction function);

}  // namespace anyaccel::backends::sim::checking
