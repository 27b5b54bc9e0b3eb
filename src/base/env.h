// Reads environment variables. All of them follow the same parsing rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// Returns the value of a variable, or nullopt if the variable is unset or empty.
ANYACCEL_API std::optional<std::string> env(const char* name);
/// Returns true for "1", "true", "yes" and "on", and false for "0", "false", "no", "off" and an
/// unset variable. Ignores case. Any other value throws `invalid_argument`, naming the variable.
ANYACCEL_API bool env_flag(const char* name);
/// Returns an integer within [low, high], or nullopt if the variable is unset. Any other value
/// throws `invalid_argument`.
ANYACCEL_API std::optional<long> env_int(const char* name, long low, long high);
/// Returns a number of bytes, whose text may have the suffix K, M or G (powers of 1024), or nullopt
/// if the variable is unset. Any other value throws `invalid_argument`.
ANYACCEL_API std::optional<std::int64_t> env_bytes(const char* name);
/// Returns the number of ranks that the launcher started: WORLD_SIZE, or 1 if unset. Throws
/// `invalid_argument` if WORLD_SIZE is not a positive number.
ANYACCEL_API int started_ranks();

}  // namespace anyaccel
