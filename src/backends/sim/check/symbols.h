// Names of functions that a program keeps to itself: the dynamic linker does not know them, the
// file's table does. No torch.
#pragma once

#include <cstdint>
#include <string>

namespace anyaccel::backends::sim::checking {

struct Symbol {
  std::string name;          ///< mangled; empty when the file tells none
  std::uintptr_t start = 0;  ///< an address in the file, as `address` is
};

/// The function in the ELF file that `address` lies in, counted from where the file is loaded.
/// Files without a table give nothing, as files that cannot be read do.
Symbol symbol_in_file(const std::string& file, std::uintptr_t address);

}  // namespace anyaccel::backends::sim::checking
