// Access to the CUDA driver that torch has initialized: the libcuda.so.1 that the process has
// loaded. Does not need the CUDA toolkit.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backends/cuda/capability.h"

namespace anyaccel::backends::cuda {

/// Properties of one device, as reported by the driver.
struct DriverProperties {
  std::string name, uuid;  ///< UUID without "GPU-" or "MIG-"
  std::size_t total_memory = 0;
  int multi_processor_count = -1;
  Capability capability{-1, -1};
};

/// Returns the properties of device `index`, in CUDA's order. Returns nullopt if this process has
/// not loaded and initialized the driver. This function never initializes the driver, so that
/// fork() stays safe. Thread-safe.
std::optional<DriverProperties> driver_properties(int index) noexcept;

/// True if CUDA runs in this process, that is, if a device has an active primary context. Returns
/// nullopt if the driver is not loaded.
std::optional<bool> driver_runs() noexcept;

/// Page-locks host memory for all contexts (cuMemHostRegister), using the context of CUDA device
/// `index`. Returns an empty string on success, otherwise the driver's reason.
std::string driver_register_host(void* address, std::size_t bytes, int index) noexcept;
std::string driver_unregister_host(void* address) noexcept;

}  // namespace anyaccel::backends::cuda
