// Decides whether code may be loaded from a path, using the same rule as OpenSSH's StrictModes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

enum class TrustedKind {
  file,
  folder,
  /// A folder that may not exist yet. The part of its path that exists is checked like the parent
  /// folders of other paths.
  future_folder
};

/// Returns the reason why code must not be loaded from `path`: the offending file or folder, and
/// how to fix it. Returns an empty string if loading is allowed.
///
/// The path, each folder above it and each symbolic link on the way must belong to a trusted user
/// and must not be writable by others or by a group, except a group whose only member is the owner.
/// Folders above `path` may be writable if they are sticky, like /tmp, because other users cannot
/// replace the trusted user's entries there. Trusted users are the user of this process, root, and
/// everyone who could replace AnyAccel's own library anyway: the owners of that library and of the
/// folders above it.
///
/// `path` must be absolute. Never throws.
ANYACCEL_API std::string trust_problem(const std::filesystem::path& path,
                                       TrustedKind kind) noexcept;

/// Returns the library that an environment variable names, or nullopt if the variable is unset.
/// Throws `unavailable` if code must not be loaded from that path.
ANYACCEL_API std::optional<std::string> env_library(const char* variable);

}  // namespace anyaccel
