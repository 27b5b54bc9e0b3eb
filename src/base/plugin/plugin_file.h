// The text file next to a plugin's library: its name, build identity and traits. Reading it does
// not load the library.
//
// One `key = value` per line. `#` begins a comment line. A list has one line per element, all with
// the same key. The first line that is neither empty nor a comment is `anyaccel_plugin = 1`, the
// version of this format. docs/reference/plugins.md lists the keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"
#include "base/plugin/build_identity.h"

namespace anyaccel {

/// How to count devices without loading the library. If all fields are empty, only the library can
/// count them.
struct PluginProbe {
  std::optional<int> count;     ///< a fixed number of devices, for a backend that needs no hardware
  std::string folder;           ///< relative to the root, for example "dev"; see DeviceFiles
  std::string prefix;           ///< entry name without the trailing device number
  std::string attribute;        ///< optional: a file in the device's folder
  std::string attribute_value;  ///< content of `attribute`
  std::string visible;          ///< optional: the variable that selects devices
  bool opaque_ids = false;      ///< the variable contains vendor-specific identifiers
};

/// A `key = value` line of the file.
struct PluginLine {
  int number;
  std::string key;
  std::string value;
};

struct PluginFile {
  std::string name;     ///< plugin name, which DS_ACCELERATOR accepts
  std::string library;  ///< file name of the library, in the text file's folder
  BuildIdentity build;
  std::vector<PluginLine> rest;  ///< lines that describe the traits and the probe, not parsed yet
};

struct PluginTraits {
  sdk::Traits traits;
  PluginProbe probe;
};

/// Parses the syntax and the keys that are the same in all versions of AnyAccel. Throws `corrupt`,
/// naming the line, or `version_mismatch` for an unsupported version of the format. Does not check
/// the values in `rest`.
PluginFile parse_plugin_file(std::string_view text);

/// Parses `rest`. Throws `corrupt` for unknown keys, invalid values and missing keys.
PluginTraits plugin_traits(const PluginFile& file);

/// True for a valid plugin name: a lower-case letter, followed by lower-case letters, digits and
/// `_`; 2 to 32 characters in all.
ANYACCEL_API bool is_plugin_name(std::string_view name) noexcept;

/// True for names that a plugin must not use: those of AnyAccel's own backends, torch's device
/// types, and words that mean "no accelerator".
ANYACCEL_API bool is_reserved_name(std::string_view name) noexcept;

/// Counts devices as described in the text file. Returns nullopt if the file does not describe a
/// probe. Never throws.
ANYACCEL_API std::optional<sdk::Probe> probe_plugin(const PluginProbe& probe) noexcept;

}  // namespace anyaccel
