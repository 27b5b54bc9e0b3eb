// Statistics of an activation are computed on a side stream, and the activation is freed before
// they are complete.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(logged_tensor_freed, "freed_in_use", "", "float32 [64, 64]") {
  auto& accelerator = get_accelerator();
  const auto side = accelerator.Stream();
  auto norm = at::zeros({}, on());
  auto activation = busy(at::ones({64, 64}, on()));
  side.wait_stream(accelerator.current_stream());
  {
    const auto guard = accelerator.stream(side);
    norm.copy_(activation.norm());
  }
  if (fixed) activation.record_stream(side.unwrap());
  activation.reset();
  const auto next = at::ones({64, 64}, on()).mul_(2);
  side.synchronize();
}

}  // namespace anyaccel::sim_bugs
