// The allocator of host tensors: torch's memory, with true numbers.
#pragma once

#include <c10/core/Allocator.h>

#include "anyaccel/memory.h"

namespace anyaccel::backends::cpu {

/// Puts the counting allocator in place of torch's for all host tensors made from now on. Runs when
/// the library is loaded; later calls change nothing. False when a program has set an allocator of
/// its own before: that one stays, and nothing is counted. Tensors made before keep the allocator
/// that they came from.
bool install_counting_allocator() noexcept;

/// True when host tensors are counted in this process.
bool counts_allocations() noexcept;

/// Exact bytes of live host tensors, their number, peaks of both, and failures. Reads a few
/// counters and nothing else. Memory that torch did not allocate (from_blob, mapped files) is not
/// in it. Thread-safe.
MemoryStats counted_memory() noexcept;

/// Starts the peaks anew from the current values. Thread-safe.
void reset_counted_peaks() noexcept;

}  // namespace anyaccel::backends::cpu
