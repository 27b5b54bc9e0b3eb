// Whether code may be loaded from a path, by the rule of OpenSSH's StrictModes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace anyaccel {

enum class TrustedKind {
  file,
  folder,
  future_folder  ///< one that may be missing and will be made: only what exists is checked, as folders above it
};

/// Why code must not come from `path`, naming the file or folder that is to blame and the remedy; empty if it may.
///
/// The path, each folder above it and each symbolic link on the way must belong to a trusted user, and no one else may
/// be able to write them: neither others nor a group, except a group that has the owner as its only member. Folders above
/// the last one may be writable if they are sticky, as /tmp is, because others cannot replace the trusted user's entries
/// there. Trusted users are the one of this process, root, and everyone who could replace AnyAccel's own library anyway:
/// the owners of that library and of the folders above it.
///
/// `path` must be absolute. Never throws.
std::string trust_problem(const std::filesystem::path& path, TrustedKind kind) noexcept;

/// The library that a variable names; nothing if it is unset. Throws `unavailable` if it is a path that code must not
/// come from.
std::optional<std::string> env_library(const char* variable);

}  // namespace anyaccel
