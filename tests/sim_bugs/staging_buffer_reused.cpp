// All batches use the same pinned buffer. It is refilled while the copy of the previous batch is in
// flight.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(staging_buffer_reused, "not_synchronized", "aten::fill_", "float32 [64, 64]") {
  auto& accelerator = get_accelerator();
  auto staging = pinned({64, 64});
  auto input = at::zeros({64, 64}, on());
  auto copied = accelerator.Event();
  for (int batch = 0; batch < 3; ++batch) {
    if (fixed && batch > 0) copied.synchronize();
    staging.fill_(batch);
    input.copy_(staging, /*non_blocking=*/true);
    copied.record();
    busy(input);
  }
}

}  // namespace anyaccel::sim_bugs
