// Devices as the kernel shows them: files under /dev and /sys. Reading them starts nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/sdk/traits.h"

namespace anyaccel {

/// What the variable that selects devices holds.
enum class VisibleIds {
  indices,  ///< 0..n-1; the list ends at the first entry that is not one, or that repeats one
  opaque,   ///< the vendor's own numbers: only how many there are is known
};

/// Where a kernel driver shows its devices: `folder`/`prefix`N. All texts are literals.
struct DeviceFiles {
  const char* folder;  ///< below the root, for example "dev"
  const char* prefix;  ///< followed by the device's number and nothing else
  const char* attribute =
      nullptr;  ///< file below the device that tells the maker, for example "device/vendor"
  const char* attribute_value = nullptr;  ///< what it holds for this maker, for example "0x8086"
  const char* visible = nullptr;          ///< variable that selects devices, where there is one
  VisibleIds visible_ids = VisibleIds::indices;
};

/// Numbers of the entries named `prefix`N in a folder, sorted; empty when it cannot be read.
std::vector<int> numbered_files(const std::filesystem::path& folder,
                                std::string_view prefix) noexcept;

/// How many of `present` devices a list such as "0,2" leaves.
int count_visible(std::string_view list, int present, VisibleIds ids) noexcept;

/// Counts devices by their files, with the reason. The root is "/", or ANYACCEL_DEVICE_ROOT, which
/// tests and people who debug detection point at a made-up tree. Never throws; thread-safe.
sdk::Probe probe_device_files(const DeviceFiles& files) noexcept;

}  // namespace anyaccel
