// Optimizer state is updated on a side stream and freed at the end of the step, while the update
// may still be running.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(optimizer_state_freed, "freed_in_use", "", "float32 [5000]") {
  auto& accelerator = get_accelerator();
  const auto side = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  const auto gradient = at::ones({5000}, on());
  {
    auto momentum = at::zeros({5000}, on());
    side.wait_stream(main_stream);
    {
      const auto guard = accelerator.stream(side);
      momentum.mul_(0.9).add_(gradient);
    }
    if (fixed) main_stream.wait_stream(side);
  }
  const auto activation = at::ones({5000}, on());
  side.synchronize();
}

}  // namespace anyaccel::sim_bugs
