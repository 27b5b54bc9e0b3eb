// A graph is replayed on its own stream while the main stream already writes the next input to the
// graph's input buffer.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(graph_input_overwritten, "unordered_streams", "aten::fill_", "float32 [32, 32]") {
  auto& accelerator = get_accelerator();
  auto input = at::ones({32, 32}, on());
  auto output = at::zeros({32, 32}, on());
  at::mm_out(output, input, input);
  accelerator.synchronize();
  const auto graph = accelerator.create_graph();
  {
    auto capture = accelerator.capture_to_graph(graph);
    at::mm_out(output, input, input);
    capture.end();
  }
  accelerator.synchronize();
  const auto side = accelerator.Stream();
  {
    const auto guard = accelerator.stream(side);
    accelerator.replay_graph(graph);
  }
  if (fixed) accelerator.current_stream().wait_stream(side);
  input.fill_(2);
  accelerator.synchronize();
}

}  // namespace anyaccel::sim_bugs
