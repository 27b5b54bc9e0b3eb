// Devices: index, names' device object, properties, the guard for the current device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "anyaccel/export.h"

namespace anyaccel {

class Accelerator;

/// Index of a device of the accelerator. Wider than torch's 8 bits, so that a wrong index is
/// reported and never wraps round to a valid one.
using DeviceIndex = int;

/// What is known of one device. Unknown numbers are -1, unknown texts are empty.
struct DeviceProperties {
  std::string name;            ///< product name, for example "NVIDIA H200" or the CPU's model name
  std::string vendor;          ///< maker
  std::string uuid;            ///< driver's unique id, for example "GPU-..." or "MIG-..."
  std::string driver_version;  ///< version of the driver or runtime
  std::int64_t total_memory = -1;  ///< bytes
  int multi_processor_count = -1;  ///< SMs, or cores of the CPU device
  int numa_node = -1;              ///< operating system's index of the nearest NUMA node
  std::optional<std::pair<int, int>>
      compute_capability;                  ///< (major, minor) where the vendor has one
  bool triton = false;                     ///< is_triton_supported()
  bool prefers_triton_grouped_mm = false;  ///< prefer_triton_grouped_mm()
};

/// Makes a device current on this thread and puts the former one back at the end of the scope.
/// What `with get_accelerator().device(i):` is in Python. Not copyable; use on one thread.
class ANYACCEL_API DeviceGuard {
 public:
  DeviceGuard(Accelerator& accelerator, DeviceIndex index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  DeviceIndex original_device() const noexcept { return previous_; }

 private:
  Accelerator& accelerator_;
  DeviceIndex previous_;
};

}  // namespace anyaccel
