// Gradients are averaged on a communication stream while the backward pass still accumulates into
// them.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(gradient_reduce_overlap, "unordered_streams", "aten::mul", "float32 [64, 64]") {
  auto& accelerator = get_accelerator();
  const auto communication = accelerator.Stream();
  auto weight = at::ones({64, 64}, on()).requires_grad_(true);
  const auto input = at::ones({8, 64}, on());
  communication.wait_stream(accelerator.current_stream());
  at::mm(input, weight).sum().backward();
  if (fixed) communication.wait_stream(accelerator.current_stream());
  {
    const auto guard = accelerator.stream(communication);
    weight.grad().mul_(0.5);  // simulates an all-reduce that averages
  }
  accelerator.current_stream().wait_stream(communication);
}

}  // namespace anyaccel::sim_bugs
