// Finds devices by the files that kernel drivers create under /dev and /sys. Reading these files
// does not initialize a device.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/sdk/traits.h"

namespace anyaccel {

/// How a vendor reads the environment variable that selects devices.
enum class VisibleIds {
  indices,    ///< 0..n-1; parsing stops at the first invalid or repeated entry
  ascending,  ///< like indices, but spaces end the list, and a list that is empty or not in
              ///< ascending order hides all devices (Huawei)
  unique,     ///< indices or UUIDs; an empty list and a repeated entry hide all devices (Cambricon)
  opaque,     ///< vendor-specific identifiers; only their count matters
};

/// Location of a kernel driver's device entries, `folder`/`prefix`N. The strings must outlive the
/// object.
struct DeviceFiles {
  const char* folder;  ///< relative to the root, for example "dev"
  const char* prefix;  ///< entry name without the trailing device number
  const char* attribute =
      nullptr;  ///< file in the device's folder that names the vendor, for example "device/vendor"
  const char* attribute_value =
      nullptr;  ///< content of `attribute` for this vendor, for example "0x8086"
  /// Environment variables that select devices. The first one that is set applies.
  std::array<const char*, 3> visible = {};
  VisibleIds visible_ids = VisibleIds::indices;
};

/// Returns the sorted numbers of the entries named `prefix`N in a folder, or an empty list if the
/// folder cannot be read.
std::vector<int> numbered_files(const std::filesystem::path& folder,
                                std::string_view prefix) noexcept;

/// Returns how many of `present` devices a list such as "0,2" leaves visible. UUIDs are assumed to
/// exist.
int count_visible(std::string_view list, int present, VisibleIds ids) noexcept;

/// Counts devices by their files and explains the result. The root is "/" unless
/// ANYACCEL_DEVICE_ROOT names another folder, for tests or to debug detection. Never throws;
/// thread-safe.
sdk::Probe probe_device_files(const DeviceFiles& files) noexcept;

}  // namespace anyaccel
