// Build properties that must match between a plugin and AnyAccel.
#pragma once

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

struct BuildIdentity {
  unsigned abi = 0;          ///< ANYACCEL_PLUGIN_ABI_VERSION
  std::string anyaccel;      ///< AnyAccel's version
  std::string libtorch;      ///< LibTorch's version
  std::string compiler_abi;  ///< ANYACCEL_COMPILER_ABI
  std::string sanitizer;     ///< name of the sanitizer: "none", "address", "thread" or "memory"
};

/// Returns the build identity of this library. Thread-safe.
ANYACCEL_API const BuildIdentity& own_identity();

/// Describes all differences, with both values and a suggested fix for each. Returns an empty
/// string if the two builds are compatible.
ANYACCEL_API std::string identity_mismatch(const BuildIdentity& plugin, const BuildIdentity& ours);

/// Returns the name of an ANYACCEL_SANITIZER_* value, such as "address"; "unknown" for other
/// numbers.
ANYACCEL_API const char* sanitizer_name(unsigned kind) noexcept;

}  // namespace anyaccel
