// What the operating system counts for this process.
#pragma once

#include <cstdint>

namespace anyaccel {

/// Resident set size in bytes; -1 where the system does not say.
std::int64_t resident_bytes() noexcept;
/// The highest resident set size so far in bytes; -1 where the system does not say.
std::int64_t peak_resident_bytes() noexcept;

}  // namespace anyaccel
