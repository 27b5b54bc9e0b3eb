// What two libraries in one process must agree on: of a plugin, and of this AnyAccel.
#pragma once

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

struct BuildIdentity {
  unsigned abi = 0;          ///< ANYACCEL_PLUGIN_ABI_VERSION
  std::string anyaccel;      ///< version
  std::string libtorch;      ///< version
  std::string compiler_abi;  ///< ANYACCEL_COMPILER_ABI
  std::string sanitizer;     ///< "none", "address", "thread" or "memory"
};

/// Of this library. Thread-safe.
ANYACCEL_API const BuildIdentity& own_identity();

/// Why the two do not fit, all differences at once, each with both sides, and what to do; empty
/// when they fit.
ANYACCEL_API std::string identity_mismatch(const BuildIdentity& plugin, const BuildIdentity& ours);

/// "none", "address", ... of ANYACCEL_SANITIZER_*; "unknown" for another number.
ANYACCEL_API const char* sanitizer_name(unsigned kind) noexcept;

}  // namespace anyaccel
