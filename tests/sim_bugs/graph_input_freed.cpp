// A graph is captured with an input that goes out of scope, so each replay reads freed memory.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(graph_input_freed, "freed_in_use", "graph.replay", "float32 [48, 48]") {
  auto& accelerator = get_accelerator();
  auto output = at::zeros({48, 48}, on());
  auto input = at::ones({48, 48}, on());
  at::mm_out(output, input, input);
  accelerator.synchronize();
  const auto graph = accelerator.create_graph();
  {
    auto capture = accelerator.capture_to_graph(graph);
    at::mm_out(output, input, input);
    capture.end();
  }
  accelerator.synchronize();
  if (!fixed) input.reset();
  const auto other = at::zeros({48, 48}, on());
  accelerator.synchronize();
  accelerator.replay_graph(graph);
  accelerator.synchronize();
}

}  // namespace anyaccel::sim_bugs
