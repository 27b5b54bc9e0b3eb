// The event that the second stream waits for is recorded before the work instead of after it.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(event_recorded_too_early, "unordered_streams", "aten::mul", "float32 [256]") {
  auto& accelerator = get_accelerator();
  const auto first = accelerator.Stream(), second = accelerator.Stream();
  auto tensor = at::zeros({256}, on());
  accelerator.synchronize();
  auto done = accelerator.Event();
  if (!fixed) done.record(first);
  {
    const auto guard = accelerator.stream(first);
    tensor.add_(1);
  }
  if (fixed) done.record(first);
  done.wait(second);
  const auto guard = accelerator.stream(second);
  tensor.mul_(2);
}

}  // namespace anyaccel::sim_bugs
