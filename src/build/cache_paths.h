// Names inside the cache folder.
#pragma once

#include <filesystem>
#include <vector>

namespace anyaccel::build {

inline constexpr const char* kPrivate = ".anyaccel-build-";  ///< a running or killed build
inline constexpr const char* kTrash = ".anyaccel-gone-";     ///< being removed
inline constexpr const char* kAside =
    ".anyaccel-old-";  ///< replaced, but another machine may use it
inline constexpr const char* kPreferred =
    "preferred";                                ///< folder with the preferences set by prefer()
inline constexpr const char* kOwner = "owner";  ///< file in a private folder that the owner locks

/// Returns the manifests in a folder.
std::vector<std::filesystem::path> manifests(const std::filesystem::path& folder);

}  // namespace anyaccel::build
