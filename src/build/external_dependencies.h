// Files that a library was made from and that are in no key: the system's headers, and those and
// the libraries below an op's prefix. What they were is written into the manifest after a build,
// and looked at before a load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "build/description.h"
#include "build/libtorch.h"
#include "build/paths.h"

namespace anyaccel::build {

struct ExternalFile {
  std::string path;  ///< "$CCL_ROOT/include/x.h" for one below a prefix
  std::int64_t bytes = 0;
  std::int64_t time = 0;  ///< of its last change, nanoseconds since 1970
  std::string digest;     ///< of its content; of its build, for a library
};

/// The files that a compiler's list of dependencies (-MD) names.
std::vector<std::string> dependencies_in(const std::string& text);

/// Those of a build that no key covers, sorted: not the op's own, AnyAccel's or LibTorch's.
/// `lists`: files that -MD wrote; a compiler that wrote none told nothing.
std::vector<ExternalFile> external_files(const Op& op, const Paths& paths, const LibTorch* torch,
                                         const std::vector<std::filesystem::path>& lists);

/// What is no longer as it was, in words; empty when all is. A file whose size and time are the
/// same is not read. A prebuilt library is looked at for its prefix alone, and that only where the
/// variable is set: it must run where there are no headers.
std::string external_change(const std::vector<ExternalFile>& files, const Description& op,
                            bool prebuilt);

}  // namespace anyaccel::build
