// What an ELF file says about itself. Only what tells two builds of a library apart and what it asks of others; no file is opened for use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::build {

struct ElfFacts {
  std::string build_id;             ///< lower-case hexadecimal digits; empty when the linker wrote none
  std::vector<std::string> needed;  ///< names of the libraries that the loader opens with it
};

/// Reads a few kilobytes, however large the file is. Nothing for a file that is no 64-bit ELF of this machine's byte order, or whose
/// tables point outside of it.
std::optional<ElfFacts> read_elf(const std::filesystem::path& file) noexcept;

}  // namespace anyaccel::build
