// A copy stream copies the weights from the host layer by layer. A layer starts before its weights
// have arrived.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(weights_used_too_early, "unordered_streams", "aten::mm", "float32 [64, 64]") {
  auto& accelerator = get_accelerator();
  const auto copies = accelerator.Stream();
  const auto main_stream = accelerator.current_stream();
  std::vector<at::Tensor> host, device;
  std::vector<Event> arrived;
  for (int layer = 0; layer < 3; ++layer) {
    host.push_back(pinned({64, 64}));
    device.push_back(at::empty({64, 64}, on()));
  }
  copies.wait_stream(main_stream);
  for (int layer = 0; layer < 3; ++layer) {
    const auto guard = accelerator.stream(copies);
    device[layer].copy_(host[layer], /*non_blocking=*/true);
    arrived.push_back(copies.record_event());
  }
  auto hidden = at::ones({4, 64}, on());
  for (int layer = 0; layer < 3; ++layer) {
    // The defective version waits for the weights of the previous layer.
    arrived[fixed ? layer : std::max(layer - 1, 0)].wait(main_stream);
    hidden = at::mm(hidden, device[layer]);
  }
  copies.synchronize();
}

}  // namespace anyaccel::sim_bugs
