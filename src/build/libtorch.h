// Which LibTorch an op is built for. Told from its files, without opening its libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anyaccel::build {

struct LibTorch {
  std::filesystem::path prefix;
  std::string version;      ///< "2.13.0"
  std::string fingerprint;  ///< of the builds of its libraries, not of their place or time: a moved
                            ///< one is the same
  std::string cuda;         ///< "13.0", or "13" when it does not say more; empty: it has no CUDA

  std::vector<std::filesystem::path> includes() const;
  std::filesystem::path libraries() const { return prefix / "lib"; }
};

/// Reads a LibTorch; about a millisecond. Throws `unavailable` when the folder holds none.
LibTorch read_libtorch(const std::filesystem::path& prefix);

}  // namespace anyaccel::build
