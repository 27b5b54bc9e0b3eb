// A loader fills weights in place with a loop on the host, although they are in device memory.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(embedding_filled_by_host, "host_access", "host code", "float32 [50, 8]") {
  auto table = at::zeros({50, 8}, on());
  auto target = fixed ? at::zeros({50, 8}) : table;
  auto* values = target.mutable_data_ptr<float>();
  for (int i = 0; i < 400; ++i) values[i] = static_cast<float>(i);
  table.copy_(target);
}

}  // namespace anyaccel::sim_bugs
