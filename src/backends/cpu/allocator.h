// Allocator for host tensors: torch's allocator with exact statistics.
#pragma once

#include <c10/core/Allocator.h>

#include "anyaccel/memory.h"

namespace anyaccel::backends::cpu {

/// Replaces torch's allocator with the counting allocator for all host tensors created from now on.
/// The library calls this function when it is loaded; later calls are no-ops. Existing tensors keep
/// their allocator. If the program has already replaced torch's allocator, the program's
/// allocator stays in use, nothing is counted, and the result is false.
bool install_counting_allocator() noexcept;

/// True if host tensors are counted in this process.
bool counts_allocations() noexcept;

/// Bytes and number of live host tensors, the peaks of both, and the number of failed allocations.
/// Excludes memory that torch did not allocate (from_blob, mapped files). Only reads a few
/// counters. Thread-safe.
MemoryStats counted_memory() noexcept;

/// Resets the peaks to the current values. Thread-safe.
void reset_counted_peaks() noexcept;

}  // namespace anyaccel::backends::cpu
