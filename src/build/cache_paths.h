// Names inside the cache's folder.
#pragma once

#include <filesystem>
#include <vector>

namespace anyaccel::build {

inline constexpr const char* kPrivate =
    ".anyaccel-build-";                                   ///< a build that runs, or that was killed
inline constexpr const char* kTrash = ".anyaccel-gone-";  ///< what is being removed
inline constexpr const char* kAside =
    ".anyaccel-old-";  ///< replaced, and perhaps used by another machine
inline constexpr const char* kPreferred = "preferred";  ///< folder of what prefer() said
inline constexpr const char* kOwner = "owner";  ///< file in a private folder that its owner holds

/// The manifests in a folder.
std::vector<std::filesystem::path> manifests(const std::filesystem::path& folder);

}  // namespace anyaccel::build
