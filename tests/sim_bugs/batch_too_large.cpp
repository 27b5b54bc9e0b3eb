// A batch that does not fit: 384 MiB of activations on a device of 256.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(batch_too_large, "memory_limit", "aten::empty", "bytes") {
  const std::int64_t rows = fixed ? 1 << 12 : 1 << 14;
  std::vector<at::Tensor> activations;
  for (int layer = 0; layer < 6; ++layer) activations.push_back(at::empty({rows, 1024}, on()));
}

}  // namespace anyaccel::sim_bugs
