// Allowlists of flags, one for each kind of compiler. Internal to src/build; `flags.h` is the
// interface.
#pragma once

#include <string_view>

namespace anyaccel::build {

/// True if the flag is accepted for g++, clang++ and icpx.
bool is_host_flag(std::string_view flag);

/// True for `-DNAME`, `-DNAME=value` and `-UNAME`, with any value.
bool is_macro(std::string_view flag);

/// True for linker flags that op builders include in their compiler flags. They have no effect
/// there.
bool is_harmless_for_linker(std::string_view flag);

/// True if a flag without a separate value is accepted for nvcc. nvcc_option() covers options whose
/// value is the next word or follows `=`.
bool is_nvcc_flag(std::string_view flag);

/// An nvcc option whose value is the next word or follows `=`.
struct NvccOption {
  std::string_view name;
  bool (*good)(std::string_view);  ///< returns true if the value is accepted
};

/// Returns the accepted option with this name, or null if there is none.
const NvccOption* nvcc_option(std::string_view name);

}  // namespace anyaccel::build
