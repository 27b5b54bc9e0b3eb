// Where an AnyAccel keeps what ops are built from, found from where its libraries lie: the same in a build tree, an
// installation and one that was moved.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anyaccel::build {

struct Places {
  std::filesystem::path ops;                    ///< descriptions and sources: one folder an op, and support/
  std::vector<std::filesystem::path> includes;  ///< with anyaccel/, and the parent of `ops`
  std::vector<std::filesystem::path> prebuilt;  ///< folders with prebuilt libraries, first match counts
  std::filesystem::path libraries;              ///< where our own libraries lie
};

/// Of the library that holds this function. Throws `unavailable` when its folders are not there.
const Places& own_places();

/// All ops of the folder, sorted by name. One that cannot be read is a warning and left out. Throws nothing of that.
std::vector<std::filesystem::path> op_files(const std::filesystem::path& ops);

/// LibTorch's folder as this AnyAccel was built with it; ANYACCEL_TORCH_DIR names another place of it (a moved one).
std::filesystem::path recorded_libtorch();

}  // namespace anyaccel::build
