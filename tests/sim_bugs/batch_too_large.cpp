// A batch does not fit into memory: 384 MiB of activations on a device with 256 MiB. The fixed
// version halves the batch and retries.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(batch_too_large, "memory_limit", "aten::empty", "bytes") {
  for (std::int64_t rows = 1 << 14;; rows /= 2) {
    std::vector<at::Tensor> activations;
    try {
      for (int layer = 0; layer < 6; ++layer) activations.push_back(at::empty({rows, 1024}, on()));
      return;
    } catch (const c10::OutOfMemoryError&) {
      if (!fixed) throw;
    }
    activations.clear();
    get_accelerator().empty_cache();
  }
}

}  // namespace anyaccel::sim_bugs
