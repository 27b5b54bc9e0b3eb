// What an ELF file says about itself. Only what tells two builds of a library apart and what it
// asks of others; no file is opened for use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::build {

struct ElfFacts {
  std::string build_id;  ///< lower-case hexadecimal digits; empty when the linker wrote none
  std::vector<std::string> needed;  ///< names of the libraries that the loader opens with it
  std::string run_path;  ///< where it looks for them first (RPATH or RUNPATH), `:` between; empty:
                         ///< nowhere of its own
};

/// Reads a few kilobytes, however large the file is. Nothing for a file that is no 64-bit ELF of
/// this machine's byte order, or whose tables point outside of it.
ANYACCEL_API std::optional<ElfFacts> read_elf(const std::filesystem::path& file) noexcept;

/// What tells this build of a library from others: the linker's build id, which is of the whole
/// content. Of one that has none, its size and digests of pages spread over it; reading hundreds of
/// megabytes would cost more than the load that this decides about. Empty when it cannot be read.
ANYACCEL_API std::string library_identity(const std::filesystem::path& file);

}  // namespace anyaccel::build
