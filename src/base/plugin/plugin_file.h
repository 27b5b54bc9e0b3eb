// The text file beside a plugin's library: what it is, what it was built for, its traits. Read
// without opening the library.
//
// One `key = value` a line; `#` begins a comment line; lists repeat their key. The first line that
// is neither empty nor a comment is `anyaccel_plugin = 1`, the version of this format.
// docs/reference/plugins.md lists the keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"
#include "base/plugin/build_identity.h"

namespace anyaccel {

/// How devices are counted without opening the library. All empty: only the library can tell.
struct PluginProbe {
  std::optional<int> count;     ///< a fixed number, of a device that needs no hardware
  std::string folder;           ///< below the root, for example "dev"; see DeviceFiles
  std::string prefix;           ///< followed by the device's number
  std::string attribute;        ///< optional: a file below the device
  std::string attribute_value;  ///< and what it holds
  std::string visible;          ///< optional: the variable that selects devices
  bool opaque_ids = false;      ///< that variable holds the vendor's own numbers
};

/// One line of the file.
struct PluginLine {
  int number;
  std::string key;
  std::string value;
};

struct PluginFile {
  std::string name;     ///< what DS_ACCELERATOR says
  std::string library;  ///< file name, in the text file's folder
  BuildIdentity build;
  std::vector<PluginLine> rest;  ///< traits and probe, as they stand
};

struct PluginTraits {
  sdk::Traits traits;
  PluginProbe probe;
};

/// Reads the form, and what is the same in all versions of AnyAccel. Throws `corrupt` with the
/// line, or `version_mismatch` for another version of the format. Values of `rest` are not looked
/// at.
PluginFile parse_plugin_file(std::string_view text);

/// Reads the rest. Throws `corrupt` with the line for unknown keys, values that cannot be, and
/// missing ones.
PluginTraits plugin_traits(const PluginFile& file);

/// True for what may be a plugin's name: a lower-case letter, then lower-case letters, digits, `_`;
/// 2 to 32 in all.
ANYACCEL_API bool is_plugin_name(std::string_view name) noexcept;

/// True for names that a plugin may not have: those of AnyAccel's own backends, torch's device
/// types, words that mean no accelerator.
ANYACCEL_API bool is_reserved_name(std::string_view name) noexcept;

/// Asks the file's own probe; nothing when it has none. Never throws.
ANYACCEL_API std::optional<sdk::Probe> probe_plugin(const PluginProbe& probe) noexcept;

}  // namespace anyaccel
