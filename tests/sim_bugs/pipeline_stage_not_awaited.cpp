// A pipeline's first stage runs on its own stream. Another stream copies the stage's result to the
// next device without waiting for the stage.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(pipeline_stage_not_awaited, "unordered_streams", "aten::copy_", "float32 [8, 32]") {
  auto& accelerator = get_accelerator();
  const auto stage = accelerator.Stream(0);
  const auto weight = at::ones({32, 32}, on(0));
  auto activation = at::zeros({8, 32}, on(0));
  const auto input = at::ones({8, 32}, on(0));
  stage.wait_stream(accelerator.current_stream(0));
  {
    const auto guard = accelerator.stream(stage);
    at::mm_out(activation, input, weight);
  }
  if (fixed) accelerator.current_stream(0).wait_stream(stage);
  const auto next = activation.to(on(1).device());
  next.relu();
  stage.synchronize();
}

}  // namespace anyaccel::sim_bugs
