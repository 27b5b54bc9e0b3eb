// A batch is prefetched on a copy stream without record_stream(). The batch's memory belongs to the
// copy stream, which reuses it for the next batch while the step still reads the previous one.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(prefetched_batch_freed, "freed_in_use", "aten::copy_", "float32 [32, 32]") {
  auto& accelerator = get_accelerator();
  const auto copies = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  const auto weight = at::ones({32, 32}, on());
  const auto batch = pinned({32, 32});
  at::Tensor next;
  const auto preload = [&] {
    const auto guard = accelerator.stream(copies);
    next = batch.to(on().device(), at::kFloat, /*non_blocking=*/true);
  };
  preload();
  for (int step = 0; step < 4; ++step) {
    main_stream.wait_stream(copies);
    const auto input = next;
    if (fixed) input.record_stream(main_stream.unwrap());
    preload();
    at::mm(input, weight).relu_();
  }
}

}  // namespace anyaccel::sim_bugs
