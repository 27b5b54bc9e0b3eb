// Replaces functions that loaded libraries import, so that their calls reach our functions. Does
// not use torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace anyaccel::backends::sim::checking {

/// A function to call in place of the imported function `name`.
struct Replacement {
  const char* name;
  void* function;
};

/// A loaded library, or the program.
struct LoadedObject {
  std::uintptr_t base = 0;  ///< added to the object's addresses by the loader
  std::string path;         ///< empty for the program
};

/// For each loaded object, asks `wanted` for the replacements and writes them into the object's
/// table of imported functions. Call it again to cover libraries that have been loaded since.
/// Returns the number of imports that were replaced.
std::size_t replace_imports(
    const std::function<std::span<const Replacement>(const LoadedObject&)>& wanted);

}  // namespace anyaccel::backends::sim::checking
