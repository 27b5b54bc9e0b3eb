// The optimizer step starts before the gradients' all-reduce on the communication stream has
// finished.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(reduced_gradient_not_awaited, "unordered_streams", "aten::add", "float32 [1000]") {
  auto& accelerator = get_accelerator();
  const auto communication = accelerator.Stream();
  auto weight = at::ones({1000}, on());
  auto gradient = at::full({1000}, 2.0, on());
  communication.wait_stream(accelerator.current_stream());
  {
    const auto guard = accelerator.stream(communication);
    gradient.div_(2);
  }
  if (fixed) accelerator.current_stream().wait_stream(communication);
  weight.add_(gradient, -0.1);
}

}  // namespace anyaccel::sim_bugs
