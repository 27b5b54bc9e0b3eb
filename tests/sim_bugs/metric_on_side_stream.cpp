// A metric is computed on a side stream and read with item(), which waits only for the current
// stream.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(metric_on_side_stream, "unordered_streams", "aten::item", "float32 []") {
  auto& accelerator = get_accelerator();
  const auto side = accelerator.Stream();
  const auto logits = at::ones({64, 10}, on());
  auto accuracy = at::zeros({}, on());
  side.wait_stream(accelerator.current_stream());
  {
    const auto guard = accelerator.stream(side);
    accuracy.copy_(logits.mean());
  }
  if (fixed) side.synchronize();
  accuracy.item<float>();
  side.synchronize();
}

}  // namespace anyaccel::sim_bugs
