// The producer's stream waits for the consumer's stream instead of the other way around.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(wait_in_wrong_direction, "unordered_streams", "aten::sum", "float32 [128, 128]") {
  auto& accelerator = get_accelerator();
  const auto side = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  auto tensor = at::ones({128, 128}, on());
  side.wait_stream(main_stream);
  {
    const auto guard = accelerator.stream(side);
    tensor.mul_(3);
  }
  if (fixed)
    main_stream.wait_stream(side);
  else
    side.wait_stream(main_stream);
  tensor.sum();
}

}  // namespace anyaccel::sim_bugs
