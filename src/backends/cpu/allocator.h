// The allocator of host tensors: torch's allocator with exact statistics.
#pragma once

#include <c10/core/Allocator.h>

#include "anyaccel/memory.h"

namespace anyaccel::backends::cpu {

/// Replaces torch's allocator with the counting allocator for all host tensors made from now on.
/// The library calls this function when it is loaded; later calls are no-ops. Returns false if the
/// program has already set an allocator of its own. That allocator then stays in use, and nothing
/// is counted. Existing tensors keep their allocator.
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
