// Paths of the files from which ops are built, relative to AnyAccel's libraries: the same layout in a build tree and in an
// installation, which may be moved.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "build/description.h"

namespace anyaccel::build {

struct Paths {
  std::filesystem::path ops;  ///< descriptions and sources, one folder per op; kernels/, io/, comm/ are next to it
  std::vector<std::filesystem::path> includes;  ///< with anyaccel/, and the parent of `ops`
  std::vector<std::filesystem::path> prebuilt;  ///< folders with prebuilt libraries, first match counts
  std::filesystem::path libraries;              ///< where our own libraries lie
};

/// Of the library that holds this function. Throws `unavailable` when its folders are not there.
const Paths& own_paths();

/// The folders with sources of ops: `ops` and its neighbours kernels/, io/ and comm/.
std::vector<std::filesystem::path> source_folders(const Paths& paths);

/// The folder to which `source` is relative.
std::filesystem::path folder_of(const Source& source, const Op& op, const Paths& paths);

/// All ops of the folder, sorted by name. One that cannot be read is a warning and left out. Throws nothing of that.
std::vector<std::filesystem::path> op_files(const std::filesystem::path& ops);

/// LibTorch's folder as this AnyAccel was built with it; ANYACCEL_TORCH_DIR names another place of it (a moved one).
std::filesystem::path recorded_libtorch();

}  // namespace anyaccel::build
