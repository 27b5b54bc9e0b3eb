// Environment variables, read in one way everywhere.
#pragma once

#include <optional>
#include <string>

namespace anyaccel {

/// The value of a variable; nothing when it is unset or empty.
std::optional<std::string> env(const char* name);
/// "1", "true", "yes", "on" are true, "0", "false", "no", "off" and unset are false, in any case;
/// anything else throws `invalid_argument` naming the variable.
bool env_flag(const char* name);
/// A whole number within [low, high]; nothing when unset; anything else throws `invalid_argument`.
std::optional<long> env_int(const char* name, long low, long high);

}  // namespace anyaccel
