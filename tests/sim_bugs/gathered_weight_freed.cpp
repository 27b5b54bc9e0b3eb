// A weight is gathered on the communication stream, used on the main stream, and freed immediately.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(gathered_weight_freed, "freed_in_use", "", "float32 [32, 32]") {
  auto& accelerator = get_accelerator();
  const auto communication = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  const auto shard = at::ones({16, 32}, on());
  auto hidden = at::ones({4, 32}, on());
  communication.wait_stream(main_stream);
  for (int layer = 0; layer < 3; ++layer) {
    at::Tensor weight;
    {
      const auto guard = accelerator.stream(communication);
      weight = at::cat({shard, shard});
    }
    main_stream.wait_stream(communication);
    hidden = at::mm(hidden, weight);
    if (fixed) communication.wait_stream(main_stream);
  }
}

}  // namespace anyaccel::sim_bugs
