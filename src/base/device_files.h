// Finds devices by the files that kernel drivers create under /dev and /sys. Reading these files
// does not initialize a device.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/sdk/traits.h"

namespace anyaccel {

/// Format of the variable that selects devices.
enum class VisibleIds {
  indices,  ///< 0..n-1; parsing stops at the first invalid or repeated entry
  opaque,   ///< the vendor's own identifiers; only their number is used
};

/// Where a kernel driver lists its devices: `folder`/`prefix`N. The strings must outlive the
/// object.
struct DeviceFiles {
  const char* folder;  ///< relative to the root, for example "dev"
  const char* prefix;  ///< followed by the device's number and nothing else
  const char* attribute =
      nullptr;  ///< file below the device that identifies the vendor, for example "device/vendor"
  const char* attribute_value = nullptr;  ///< its content for this vendor, for example "0x8086"
  const char* visible = nullptr;          ///< variable that selects devices, if there is one
  VisibleIds visible_ids = VisibleIds::indices;
};

/// Numbers of the entries named `prefix`N in a folder, sorted; empty when it cannot be read.
std::vector<int> numbered_files(const std::filesystem::path& folder,
                                std::string_view prefix) noexcept;

/// Number of `present` devices that a list such as "0,2" leaves visible.
int count_visible(std::string_view list, int present, VisibleIds ids) noexcept;

/// Counts devices by their files and gives the reason. The root is "/" unless ANYACCEL_DEVICE_ROOT
/// names another folder, which is meant for tests and for debugging detection. Never throws;
/// thread-safe.
sdk::Probe probe_device_files(const DeviceFiles& files) noexcept;

}  // namespace anyaccel
