// Optimizer state is copied to pinned memory on one stream and back on another, which does not wait
// for the first.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(offloaded_state_fetched_early, "unordered_streams", "aten::copy_", "float32 [2048]") {
  auto& accelerator = get_accelerator();
  const auto out = accelerator.Stream(), in = accelerator.Stream();
  const auto state = at::ones({2048}, on());
  auto fetched = at::zeros({2048}, on());
  auto host = pinned({2048});
  accelerator.synchronize();
  {
    const auto guard = accelerator.stream(out);
    host.copy_(state, /*non_blocking=*/true);
  }
  if (fixed) in.wait_stream(out);
  {
    const auto guard = accelerator.stream(in);
    fetched.copy_(host, /*non_blocking=*/true);
  }
  accelerator.synchronize();
}

}  // namespace anyaccel::sim_bugs
