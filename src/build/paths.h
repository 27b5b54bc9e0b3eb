// Paths of the files that ops are built from. They are found relative to AnyAccel's libraries, so
// that an installation can be moved. A build tree has the same layout.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"

namespace anyaccel::build {

struct Paths {
  /// Op descriptions and sources, one folder per op. The folders kernels/, io/ and comm/ are next
  /// to it.
  std::filesystem::path ops;
  std::vector<std::filesystem::path>
      includes;  ///< search path for AnyAccel's headers and for headers of the ops' sources
  std::vector<std::filesystem::path>
      prebuilt;                     ///< folders with prebuilt libraries; the first match is used
  std::filesystem::path libraries;  ///< folder that contains AnyAccel's libraries
};

/// Returns the paths of the installation or build tree that contains own_library_folder(). Throws
/// `unavailable` if a folder is missing.
ANYACCEL_API const Paths& own_paths();

/// Returns the folders that contain op sources: `ops`, and kernels/, io/, comm/shm/ and comm/ccl/
/// next to it.
ANYACCEL_API std::vector<std::filesystem::path> source_folders(const Paths& paths);

/// Returns the base folder for the relative paths in `source`.
ANYACCEL_API std::filesystem::path folder_of(const Source& source, const Op& op,
                                             const Paths& paths);

/// Returns the sorted paths of all descriptions (`<op>.op`) in the folders below `ops`. Folders
/// that cannot be read are skipped.
ANYACCEL_API std::vector<std::filesystem::path> op_files(const std::filesystem::path& ops);

/// Returns the prefix of the LibTorch that AnyAccel was built against. ANYACCEL_TORCH_DIR overrides
/// it, for example if LibTorch was moved.
ANYACCEL_API std::filesystem::path recorded_libtorch();

}  // namespace anyaccel::build
