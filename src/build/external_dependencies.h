// Build inputs that the key does not cover: the system's headers, and the headers and libraries in
// an op's prefix. A build records them in the manifest, and a load checks whether they have
// changed.
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
  std::string path;  ///< absolute, or relative to a prefix: "$CCL_ROOT/include/x.h"
  std::int64_t bytes = 0;
  std::int64_t time = 0;  ///< time of the last modification, in nanoseconds since the Unix epoch
  std::string digest;     ///< digest of the content or, for a library, of library_identity()
};

/// Parses the file names in a compiler's dependency file (-MD).
std::vector<std::string> dependencies_in(const std::string& text);

/// Returns, in sorted order, a build's dependencies that are not part of the key: all except the
/// files of the op, AnyAccel and LibTorch. `lists` are dependency files (-MD); missing ones are
/// skipped.
std::vector<ExternalFile> external_files(const Op& op, const Paths& paths, const LibTorch* torch,
                                         const std::vector<std::filesystem::path>& lists);

/// Returns a description of the first file that has changed since the build, or an empty string if
/// none has. Files whose size and modification time are unchanged are not read. For a prebuilt
/// library, only files in the prefix are checked, and only if the prefix variable is set, because
/// the library must also work on machines without the headers.
std::string external_change(const std::vector<ExternalFile>& files, const Description& op,
                            bool prebuilt);

}  // namespace anyaccel::build
