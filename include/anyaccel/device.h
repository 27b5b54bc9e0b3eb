// Device index, device properties and the guard for the current device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "anyaccel/export.h"

namespace anyaccel {

class Accelerator;

/// Index of a device of the accelerator. Wider than torch's 8 bits, so that a wrong index is
/// reported instead of wrapping around to a valid one.
using DeviceIndex = int;

/// Properties of one device. Unknown numbers are -1, unknown strings are empty.
struct DeviceProperties {
  std::string name;            ///< product name, for example "NVIDIA H200" or the CPU's model name
  std::string vendor;          ///< vendor, for example "NVIDIA"
  std::string uuid;            ///< unique id from the driver, for example "GPU-..." or "MIG-..."
  std::string driver_version;  ///< driver or runtime version
  std::int64_t total_memory = -1;  ///< total memory in bytes
  int multi_processor_count = -1;  ///< number of SMs; for the CPU, number of cores
  int numa_node = -1;              ///< operating-system index of the nearest NUMA node
  /// (major, minor), if the vendor defines it
  std::optional<std::pair<int, int>> compute_capability;
  bool triton = false;                     ///< see is_triton_supported()
  bool prefers_triton_grouped_mm = false;  ///< see prefer_triton_grouped_mm()
};

/// Makes a device current on this thread and restores the previous one on destruction. The
/// counterpart of Python's `with get_accelerator().device(i):`. Not copyable. Destroy it on the
/// thread that created it.
class ANYACCEL_API DeviceGuard {
 public:
  DeviceGuard(Accelerator& accelerator, DeviceIndex index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  /// Index of the device that was current before the guard was created.
  DeviceIndex original_device() const noexcept { return previous_; }

 private:
  Accelerator& accelerator_;
  DeviceIndex previous_;
};

}  // namespace anyaccel
