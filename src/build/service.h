// Provides an op's library: a prebuilt one, one from the cache, or a new build.
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
  /// Overrides the compiler in the description. If empty, the build uses the first of these that is
  /// given: the description's compiler, CXX, the system's compiler.
  std::string compiler;
  std::filesystem::path cache;
  bool verbose = false;
  bool force =
      false;  ///< build even if a library exists; the result takes precedence over prebuilt ones
  bool fatal_warnings = false;  ///< treat compiler output as a failure, for AnyAccel's own build
  bool prebuilt = true;         ///< whether to look for prebuilt libraries
  bool compile_only =
      false;  ///< build for another machine; allows CUDA ops even if this LibTorch has no CUDA
};

/// Returns the settings determined by environment variables and by the location of AnyAccel's
/// libraries.
ANYACCEL_API Settings default_settings(std::filesystem::path torch_prefix);

enum class Origin { prebuilt, cached, built };
ANYACCEL_API const char* to_string(Origin origin) noexcept;

struct Found {
  Held held;
  Origin origin;
};

/// Finds the library of an op, or builds it if there is none. Thread-safe and process-safe: one
/// caller builds the library, and the others wait for it. Throws `build_failed`, `unavailable`,
/// `io` and `not_found`.
ANYACCEL_API Found find_or_build(const Op& op, const Settings& settings);
/// Like find_or_build(), but returns nullopt instead of building. If a prebuilt library was
/// rejected, `why_not` receives the reason. Does not count as a use of the cache entry.
ANYACCEL_API std::optional<Found> find(const Op& op, const Settings& settings,
                                       std::string* why_not = nullptr);

/// Checks whether find_or_build() would find the library or could build it. Never throws. May run
/// the compiler to check headers and libraries; does not initialize devices.
ANYACCEL_API Compatibility check(const Op& op, const Settings& settings) noexcept;

/// Returns the key's inputs as (name, value) pairs, except those from the compiler. Does not run
/// programs. Throws `not_found` and `unavailable`.
ANYACCEL_API Key key_of(const Op& op, const Settings& settings);

/// What a build would do: its commands, for display.
struct DryRun {
  std::string name, key;
  std::filesystem::path folder;
  int jobs = 1;
  std::vector<std::string> commands;  ///< quoted for a shell
};
ANYACCEL_API DryRun dry_run(const Op& op, const Settings& settings);

/// Builds a prebuilt library in `folder`. Does nothing if the existing one is up to date.
ANYACCEL_API Origin build_prebuilt(const Op& op, const Settings& settings,
                                   const std::filesystem::path& folder);

}  // namespace anyaccel::build
