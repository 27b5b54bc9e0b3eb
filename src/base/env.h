// Environment variables, read in one way everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// The value of a variable; nothing when it is unset or empty.
ANYACCEL_API std::optional<std::string> env(const char* name);
/// "1", "true", "yes", "on" are true, "0", "false", "no", "off" and unset are false, in any case;
/// anything else throws `invalid_argument` naming the variable.
ANYACCEL_API bool env_flag(const char* name);
/// A whole number within [low, high]; nothing when unset; anything else throws `invalid_argument`.
ANYACCEL_API std::optional<long> env_int(const char* name, long low, long high);
/// Bytes, or a number with K, M or G (1024s); nothing when unset; anything else throws
/// `invalid_argument`.
ANYACCEL_API std::optional<std::int64_t> env_bytes(const char* name);
/// How many ranks a launcher started: WORLD_SIZE, 1 when unset. Throws `invalid_argument` for what
/// is no number above 0.
ANYACCEL_API int started_ranks();

}  // namespace anyaccel
