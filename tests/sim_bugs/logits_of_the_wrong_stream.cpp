// Logits are copied to the host on a side stream, but the host waits for the main stream before
// sampling.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(logits_of_the_wrong_stream, "not_synchronized", "aten::argmax", "float32 [1, 500]") {
  auto& accelerator = get_accelerator();
  const auto side = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  const auto logits = at::ones({1, 500}, on());
  auto host = pinned({1, 500});
  side.wait_stream(main_stream);
  {
    const auto guard = accelerator.stream(side);
    host.copy_(logits, /*non_blocking=*/true);
  }
  (fixed ? side : main_stream).synchronize();
  host.argmax().item<std::int64_t>();
  side.synchronize();
}

}  // namespace anyaccel::sim_bugs
