// Memory use of this process.
#pragma once

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel {

/// Resident set size of this process in bytes. Throws `unavailable` if the system does not report
/// it.
ANYACCEL_API std::int64_t resident_bytes();
/// Highest resident set size since the start of the process or the last reset, in bytes.
std::int64_t peak_resident_bytes();

struct ResidentMemory {
  std::int64_t bytes = 0;
  std::int64_t peak_bytes = 0;
};
/// Both values at the same moment, at little more than the cost of one.
ANYACCEL_API ResidentMemory resident_memory();

/// Resets the peak to the current value. Returns false if the system cannot.
ANYACCEL_API bool reset_peak_resident_bytes() noexcept;

}  // namespace anyaccel
