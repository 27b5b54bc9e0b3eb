// The accepted flags of each kind of compiler. Internal to src/build; `flags.h` is the interface.
#pragma once

#include <string_view>

namespace anyaccel::build {

/// True if g++, clang++ or icpx may get the flag.
bool is_host_flag(std::string_view flag);

/// `-DNAME`, `-DNAME=value` and `-UNAME`. The value is the program's own business.
bool is_macro(std::string_view flag);

/// True for flags of the linker that builders pass to the compiler, where they have no effect.
bool is_harmless_for_linker(std::string_view flag);

/// True if nvcc may get the flag, which has no value in the next word or after `=`.
bool is_nvcc_flag(std::string_view flag);

/// An option of nvcc with a value, in the next word or after `=`.
struct NvccOption {
  std::string_view name;
  bool (*good)(std::string_view);  ///< whether nvcc may get this value
};

/// The accepted option of this name; null if there is none.
const NvccOption* nvcc_option(std::string_view name);

}  // namespace anyaccel::build
