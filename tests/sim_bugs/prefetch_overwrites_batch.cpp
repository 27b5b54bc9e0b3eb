// The device has a single input buffer. The copy stream writes the next batch into it while the
// step still reads the previous batch.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(prefetch_overwrites_batch, "unordered_streams", "aten::copy_", "float32 [16, 64]") {
  auto& accelerator = get_accelerator();
  const auto copies = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  const auto weight = at::ones({64, 64}, on());
  auto input = at::zeros({16, 64}, on());
  const at::Tensor batches[] = {pinned({16, 64}), pinned({16, 64})};
  copies.wait_stream(main_stream);
  for (int step = 0; step < 4; ++step) {
    if (fixed) copies.wait_stream(main_stream);
    {
      const auto guard = accelerator.stream(copies);
      input.copy_(batches[step % 2], /*non_blocking=*/true);
    }
    main_stream.wait_stream(copies);
    at::mm(input, weight).relu_();
  }
}

}  // namespace anyaccel::sim_bugs
