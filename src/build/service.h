// From an op to a library that may be opened: prebuilt, from the cache, or built now.
#pragma once

#include <memory>
#include <optional>

#include "anyaccel/export.h"
#include "anyaccel/op_builder.h"
#include "build/cache.h"
#include "build/plan.h"

namespace anyaccel::build {

struct Settings {
  Paths paths;
  std::filesystem::path torch_prefix;
  Target target;
  std::string compiler;  ///< stands above the description's; empty: that one, CXX, the system's
  std::filesystem::path cache;
  bool verbose = false;
  bool force =
      false;  ///< build although there is one; what is built then stands above a prebuilt one
  bool fatal_warnings = false;  ///< for our own builds
  bool prebuilt = true;         ///< look for prebuilt libraries
  bool compile_only =
      false;  ///< for another machine: this LibTorch may lack the CUDA that the op is for
};

/// Everything from the environment and from where our libraries lie.
ANYACCEL_API Settings default_settings(std::filesystem::path torch_prefix);

enum class Origin { prebuilt, cached, built };
ANYACCEL_API const char* to_string(Origin origin) noexcept;

struct Found {
  Held held;
  Origin origin;
};

/// Looks for the library and builds it when there is none. Safe to call from any number of
/// processes and threads at once: one builds, the others wait and take its result. Throws
/// `build_failed`, `unavailable`, `io`, `not_found`.
ANYACCEL_API Found find_or_build(const Op& op, const Settings& settings);
/// The first half of it: nothing when it would have to be built. `why_not` says why a prebuilt one
/// was not taken. It does not count as a use.
ANYACCEL_API std::optional<Found> find(const Op& op, const Settings& settings,
                                       std::string* why_not = nullptr);

/// Whether find_or_build() can do it: it asks the same questions. Never throws; runs compilers at
/// most to see whether headers and libraries are there, and starts no device.
ANYACCEL_API Compatibility check(const Op& op, const Settings& settings) noexcept;

/// What the key of an op here is made from, as (name, value); nothing is run. Throws `not_found`,
/// `unavailable`.
ANYACCEL_API Key key_of(const Op& op, const Settings& settings);

/// What a build would do.
struct DryRun {
  std::string name, key;
  std::filesystem::path folder;
  int jobs = 1;
  std::vector<std::string> commands;  ///< as they can be typed into a shell
};
ANYACCEL_API DryRun dry_run(const Op& op, const Settings& settings);

/// Builds into `folder`, where it becomes a prebuilt library. Nothing is done when the one there is
/// right.
ANYACCEL_API Origin build_prebuilt(const Op& op, const Settings& settings,
                                   const std::filesystem::path& folder);

}  // namespace anyaccel::build
