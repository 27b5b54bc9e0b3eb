// The cuda backend: NVIDIA GPUs through torch's own CUDA type.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "anyaccel/sdk/torch_backend.h"
#include "backends/cuda/capability.h"

namespace anyaccel::backends::cuda {

/// README.md describes the differences from the generic backend.
class CudaBackend final : public sdk::TorchBackend {
 public:
  CudaBackend();
  DeviceIndex device_count() const noexcept override;
  bool is_initialized() const noexcept override;
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
  MemoryInfo memory_info(DeviceIndex index) const override;
  bool register_host_memory(void* address, std::size_t bytes) override;
  void unregister_host_memory(void* address) override;
  std::shared_ptr<sdk::GraphImpl> new_graph() override;
  bool is_current_stream_capturing() const override;
  void range_push(const std::string& message, const std::string& domain,
                  const std::string& category) override;
  void range_pop(const std::string& domain) override;

 private:
  /// UUID of torch's device `index`; nullopt if neither the driver nor NVML reports it.
  std::optional<std::string> uuid(DeviceIndex index) const;
  Capability capability(DeviceIndex index) const;

  int counted_;  // number of devices according to NVML; 0 if NVML does not work
  // Set once CUDA has been initialized, which cannot be undone.
  mutable std::atomic<bool> runs_{false};
};

}  // namespace anyaccel::backends::cuda
