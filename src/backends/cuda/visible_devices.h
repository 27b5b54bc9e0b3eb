// CUDA_VISIBLE_DEVICES: the devices of a machine that a process sees, and their order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::backends::cuda {

/// One MIG instance of a device.
struct MigDevice {
  std::string uuid;  ///< "MIG-<uuid>" as drivers since 470 name it
  int gpu_instance = -1;
  int compute_instance = -1;
};

/// One device of the machine, in NVML's order (PCI bus id).
struct PhysicalDevice {
  std::string uuid;  ///< "GPU-<uuid>"
  bool mig = false;  ///< true if MIG mode is on; then only the instances can be used
  std::vector<MigDevice> instances = {};
};

/// A device that the process sees.
struct VisibleDevice {
  int physical = 0;   ///< index into the machine's devices
  int instance = -1;  ///< index of the MIG instance; -1: the whole device
  friend bool operator==(const VisibleDevice&, const VisibleDevice&) = default;
};

/// The devices that CUDA would enumerate for a value of CUDA_VISIBLE_DEVICES (nullopt: unset).
///
/// The rules are those of the CUDA C++ Programming Guide ("CUDA Environment Variables") and the MIG
/// User Guide ("Device Enumeration"):
/// - Entries are indices, "GPU-" UUIDs, "MIG-" UUIDs or "MIG-GPU-<uuid>/<gi>/<ci>". UUIDs may be
///   abbreviated if they stay unique.
/// - Indices are NVML's. They match CUDA's with CUDA_DEVICE_ORDER=PCI_BUS_ID.
/// - The list ends at the first entry that does not name a device. If an entry is repeated, no
///   device is visible.
/// - A device in MIG mode is enumerated as its first instance.
/// - If a MIG instance is selected, no other device is enumerated.
///
/// Reads at most 64 KiB of `value`. Pure function.
std::vector<VisibleDevice> visible_devices(std::optional<std::string_view> value,
                                           const std::vector<PhysicalDevice>& machine);

}  // namespace anyaccel::backends::cuda
