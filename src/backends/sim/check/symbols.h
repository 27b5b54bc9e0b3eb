// Finds names of functions that are not exported. They are in the file's symbol table, but the
// dynamic linker does not know them. Does not use torch.
#pragma once

#include <cstdint>
#include <string>

namespace anyaccel::backends::sim::checking {

struct Symbol {
  std::string name;          ///< mangled name; empty if the file does not contain it
  std::uintptr_t start = 0;  ///< address relative to the load address, like `address`
};

/// The function in the ELF file that contains `address`, which is relative to the load address.
/// Empty if the file has no symbol table or cannot be read.
Symbol symbol_in_file(const std::string& file, std::uintptr_t address);

}  // namespace anyaccel::backends::sim::checking
