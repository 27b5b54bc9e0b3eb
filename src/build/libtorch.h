// The LibTorch installation that an op is built against. It is identified from its files, without
// loading its libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anyaccel::build {

struct LibTorch {
  std::filesystem::path prefix;
  std::string version;  ///< for example "2.13.0"
  std::string
      fingerprint;  ///< identifies the libraries' builds, independent of path and modification time
  std::string cuda;  ///< "13.0", or "13" if the minor version is unknown; empty without CUDA

  std::vector<std::filesystem::path> includes() const;
  std::filesystem::path libraries() const { return prefix / "lib"; }
};

/// Identifies the LibTorch installation in a folder, which takes about a millisecond. Throws
/// `unavailable` if the folder does not contain one.
LibTorch read_libtorch(const std::filesystem::path& prefix);

}  // namespace anyaccel::build
