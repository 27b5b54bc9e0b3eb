// Memory use of this process.
#pragma once

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel {

/// Returns the resident set size of this process in bytes. Throws `unavailable` if the system does
/// not report it.
ANYACCEL_API std::int64_t resident_bytes();
/// Returns the peak resident set size since the start of the process or the last reset, in bytes.
std::int64_t peak_resident_bytes();

struct ResidentMemory {
  std::int64_t bytes = 0;
  std::int64_t peak_bytes = 0;
};
/// Returns both sizes, measured at the same time. This costs little more than reading one of them.
ANYACCEL_API ResidentMemory resident_memory();

/// Resets the peak to the current size. Returns false if the system does not support this.
ANYACCEL_API bool reset_peak_resident_bytes() noexcept;

}  // namespace anyaccel
