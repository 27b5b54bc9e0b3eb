// Each step's loss is kept for a plot, together with its autograd history.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(history_kept, "memory_limit", "aten::", "bytes") {
  const auto weight = at::ones({1 << 20}, on()).requires_grad_(true);
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 100; ++step) {
    const auto loss = weight.exp().mean();
    losses.push_back(fixed ? loss.detach() : loss);
  }
}

}  // namespace anyaccel::sim_bugs
