// Tells faults of memory that the simulator guards from a program's other crashes. No torch.
#pragma once

#include <cstdint>

namespace anyaccel::backends::sim::checking {

/// Called on the thread that faulted. True: the memory is open now, and the access is made again.
/// False: not our memory, or nothing can be done; whoever handled SIGSEGV before does so now.
using FaultFunction = bool (*)(std::uintptr_t address, bool writes);

/// Once in a process; handlers that others install later come first.
void handle_faults(FaultFunction function);

}  // namespace anyaccel::backends::sim::checking
