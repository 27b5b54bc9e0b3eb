#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::sim {

/// The simulator as a separate accelerator. Unless the simulator is already running, the
/// constructor starts it with the options in the SIM_* variables.
class SimBackend : public sdk::TorchBackend {
 public:
  SimBackend();
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
  bool register_host_memory(void* address, std::size_t bytes) override;
  void unregister_host_memory(void* address) override;
  std::shared_ptr<sdk::GraphImpl> new_graph() override;
  bool is_current_stream_capturing() const override;
};

}  // namespace anyaccel::backends::sim
