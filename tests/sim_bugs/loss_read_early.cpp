// The loss is copied to the host asynchronously, and read immediately.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(loss_read_early, "not_synchronized", "host code", "float32 []") {
  auto& accelerator = get_accelerator();
  const auto loss = busy(at::ones({64, 64}, on())).mean();
  const auto host = loss.to(at::kCPU, at::kFloat, /*non_blocking=*/true);
  if (fixed) accelerator.current_stream().synchronize();
  std::fprintf(stderr, "loss %g\n", *host.const_data_ptr<float>());
}

}  // namespace anyaccel::sim_bugs
