// NVML: queries NVIDIA's driver without a CUDA context. Needs neither torch nor the toolkit.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "backends/cuda/capability.h"
#include "backends/cuda/nvml_symbols.h"
#include "backends/cuda/visible_devices.h"
#include "base/dynamic_library.h"

namespace anyaccel::backends::cuda {

/// Properties of one device or MIG instance, from NVML. Unknown values are empty or -1.
struct NvmlProperties {
  std::string name, uuid, driver_version;
  int numa_node = -1;
  Capability capability{-1, -1};
};

/// The driver's management library, loaded once. Thread-safe; initializes itself again in a forked
/// child.
class Nvml {
 public:
  /// This machine's NVML: libnvidia-ml.so.1, or the library that ANYACCEL_NVML_LIBRARY names. Never
  /// throws.
  ANYACCEL_API static const Nvml& instance() noexcept;
  Nvml() noexcept;

  /// Returns an empty string if NVML can be used, otherwise the reason in one sentence.
  const std::string& reason() const noexcept { return reason_; }

  /// All devices of the machine, ordered by PCI bus id, with their MIG instances. Throws
  /// `unavailable` with NVML's error, like the other queries.
  std::vector<PhysicalDevice> machine() const;
  /// UUIDs of the devices that this process sees (CUDA_VISIBLE_DEVICES), in NVML's order.
  ANYACCEL_API std::vector<std::string> visible_uuids() const;
  /// True if the order of visible_uuids() is certainly CUDA's: with CUDA_DEVICE_ORDER=PCI_BUS_ID,
  /// if devices are selected by UUID, or if all devices are the same model. Otherwise, CUDA puts
  /// the fastest device first, and devices must be matched by UUID.
  ANYACCEL_API bool order_is_certain() const;

  /// Free and total memory of a device or MIG instance, in bytes. Memory used by any process counts
  /// as used. A MIG instance is queried directly, because querying its parent device fails inside a
  /// container.
  ANYACCEL_API NvmlMemory memory(const std::string& uuid) const;
  ANYACCEL_API NvmlProperties properties(const std::string& uuid) const;

 private:
  struct Symbols {
#define ANYACCEL_NVML_POINTER(name, needed, parameters) int(*name) parameters = nullptr;
    ANYACCEL_NVML_SYMBOLS(ANYACCEL_NVML_POINTER)
#undef ANYACCEL_NVML_POINTER
  };

  void open(const std::string& library);
  void start() const;
  std::string text(int (*query)(NvmlHandle, char*, unsigned), NvmlHandle handle) const;
  std::vector<MigDevice> instances(NvmlHandle device) const;
  NvmlHandle handle(const std::string& uuid) const;

  DynamicLibrary library_;
  Symbols nvml_;
  std::string reason_;
  mutable pid_t started_in_ = -1;  // guarded by the mutex in start()
};

}  // namespace anyaccel::backends::cuda
