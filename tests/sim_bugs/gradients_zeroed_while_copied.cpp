// Gradients are copied to the host on a side stream, for a host optimizer. Meanwhile, the training
// step zeroes them.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(gradients_zeroed_while_copied, "unordered_streams", "aten::zero_", "float32 [4096]") {
  auto& accelerator = get_accelerator();
  const auto copies = accelerator.Stream();
  auto gradient = at::ones({4096}, on());
  auto host = pinned({4096});
  copies.wait_stream(accelerator.current_stream());
  {
    const auto guard = accelerator.stream(copies);
    host.copy_(gradient, /*non_blocking=*/true);
  }
  if (fixed) accelerator.current_stream().wait_stream(copies);
  gradient.zero_();
  copies.synchronize();
}

}  // namespace anyaccel::sim_bugs
