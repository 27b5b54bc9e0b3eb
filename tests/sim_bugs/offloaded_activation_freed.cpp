// Activations are copied to the host on a side stream to save memory. The originals are freed
// immediately.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(offloaded_activation_freed, "freed_in_use", "", "float32 [128, 16]") {
  auto& accelerator = get_accelerator();
  const auto side = accelerator.Stream();
  auto hidden = at::ones({128, 16}, on());
  std::vector<at::Tensor> saved;
  for (int layer = 0; layer < 3; ++layer) {
    side.wait_stream(accelerator.current_stream());
    saved.push_back(pinned({128, 16}));
    {
      const auto guard = accelerator.stream(side);
      saved.back().copy_(hidden, /*non_blocking=*/true);
    }
    if (fixed) hidden.record_stream(side.unwrap());
    hidden = hidden * 2;
  }
  side.synchronize();
}

}  // namespace anyaccel::sim_bugs
