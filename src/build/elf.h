// Reads the build id and the dependencies of ELF files without loading them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::build {

struct ElfFacts {
  std::string build_id;             ///< lower-case hexadecimal digits; empty if there is none
  std::vector<std::string> needed;  ///< DT_NEEDED: names of the required libraries
  std::string run_path;  ///< RPATH or RUNPATH: folders separated by `:`; empty if there is none
};

/// Reads only a few kilobytes, regardless of the size of the file. Returns nullopt if the file is
/// not a 64-bit ELF file with this machine's byte order, or if its tables are invalid.
ANYACCEL_API std::optional<ElfFacts> read_elf(const std::filesystem::path& file) noexcept;

/// Returns text that identifies this build of a library: the linker's build id or, if there is
/// none, the size and a digest of pages sampled from the whole file. Hashing a library of hundreds
/// of megabytes completely would take longer than loading an op. Returns an empty string if the
/// file cannot be read.
ANYACCEL_API std::string library_identity(const std::filesystem::path& file);

}  // namespace anyaccel::build
