// Paths of the files from which ops are built. They are found relative to AnyAccel's libraries, so
// that an installation can be moved. A build tree has the same layout.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"

namespace anyaccel::build {

struct Paths {
  std::filesystem::path
      ops;  ///< descriptions and sources, one folder per op; kernels/, io/ and comm/ are next to it
  std::vector<std::filesystem::path>
      includes;  ///< search path of headers: for anyaccel/ and for the sources of ops
  std::vector<std::filesystem::path>
      prebuilt;                     ///< folders with prebuilt libraries; the first match is used
  std::filesystem::path libraries;  ///< folder of AnyAccel's libraries
};

/// Returns the paths that belong to own_library_folder(). Throws `unavailable` if a folder is
/// missing.
ANYACCEL_API const Paths& own_paths();

/// The folders with sources of ops: `ops` and, next to it, kernels/, io/, comm/shm/ and comm/ccl/.
ANYACCEL_API std::vector<std::filesystem::path> source_folders(const Paths& paths);

/// The folder to which the files of `source` are relative.
ANYACCEL_API std::filesystem::path folder_of(const Source& source, const Op& op,
                                             const Paths& paths);

/// The paths of all descriptions (`<op>.op`) in the folders of `ops`, sorted. Folders that cannot
/// be read are skipped.
ANYACCEL_API std::vector<std::filesystem::path> op_files(const std::filesystem::path& ops);

/// Prefix of the LibTorch with which AnyAccel was built. ANYACCEL_TORCH_DIR overrides it, for
/// example if LibTorch was moved.
ANYACCEL_API std::filesystem::path recorded_libtorch();

}  // namespace anyaccel::build
