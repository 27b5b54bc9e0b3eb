// Device memory is wrapped in a host tensor, and a host op runs on it.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(device_memory_as_host_tensor, "host_access", "aten::sum", "float32 [300]") {
  const auto tensor = at::ones({300}, on());
  const auto source = fixed ? tensor.cpu() : tensor;
  at::from_blob(source.data_ptr(), {300}, at::TensorOptions().dtype(at::kFloat))
      .sum()
      .item<float>();
}

}  // namespace anyaccel::sim_bugs
