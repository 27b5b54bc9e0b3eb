// Names inside the cache folder.
#pragma once

#include <filesystem>
#include <vector>

namespace anyaccel::build {

inline constexpr const char* kPrivate =
    ".anyaccel-build-";  ///< prefix for running or killed builds
inline constexpr const char* kTrash =
    ".anyaccel-gone-";  ///< prefix for entries that are being removed
inline constexpr const char* kAside =
    ".anyaccel-old-";  ///< prefix for replaced entries that another machine may still use
inline constexpr const char* kPreferred =
    "preferred";  ///< folder with the preferences set by prefer()
inline constexpr const char* kOwner =
    "owner";  ///< file in a private folder; locked by the folder's owner

/// Returns the paths of the manifests in a folder.
std::vector<std::filesystem::path> manifests(const std::filesystem::path& folder);

}  // namespace anyaccel::build
