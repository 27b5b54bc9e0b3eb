// A data loader copies the next batch on its own stream, and the training step does not wait for
// that stream.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(prefetch_without_wait, "unordered_streams", "aten::mm", "float32 [32, 32]") {
  auto& accelerator = get_accelerator();
  const auto copies = accelerator.Stream();
  const auto weight = at::ones({32, 32}, on());
  const auto batch = pinned({32, 32});
  at::Tensor input;
  {
    const auto guard = accelerator.stream(copies);
    input = batch.to(on().device(), at::kFloat, /*non_blocking=*/true);
  }
  const auto main_stream = accelerator.current_stream();
  if (fixed) main_stream.wait_stream(copies);
  const auto output = at::mm(input, weight);
  input.record_stream(main_stream.unwrap());
}

}  // namespace anyaccel::sim_bugs
