// The CUDA driver, once torch has started it: libcuda.so.1 as the process has it. No toolkit
// needed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backends/cuda/capability.h"

namespace anyaccel::backends::cuda {

/// What the driver says of one device.
struct DriverProperties {
  std::string name, uuid;  ///< UUID without "GPU-" or "MIG-"
  std::size_t total_memory = 0;
  int multi_processor_count = -1;
  Capability capability{-1, -1};
};

/// Asks the driver about CUDA's device `index`, in CUDA's order. Nothing where this process has no
/// driver or has not initialized it: it is never loaded and never initialized from here, so that
/// fork stays safe. Thread-safe.
std::optional<DriverProperties> driver_properties(int index) noexcept;

/// Whether CUDA runs in this process: a device has its primary context. Nothing where the driver is
/// not loaded.
std::optional<bool> driver_runs() noexcept;

/// Page-locks host memory for all contexts (cuMemHostRegister), from the context of CUDA's device
/// `index`. Empty when done, else the driver's reason.
std::string driver_register_host(void* address, std::size_t bytes, int index) noexcept;
std::string driver_unregister_host(void* address) noexcept;

}  // namespace anyaccel::backends::cuda
