// The host reads the loss through data_ptr(), as CPU-only programs do.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(loss_by_pointer, "host_access", "host code", "float32 []") {
  const auto loss = at::ones({16}, on()).mean();
  const float value = fixed ? loss.item<float>() : *loss.const_data_ptr<float>();
  std::fprintf(stderr, "loss %g\n", value);
}

}  // namespace anyaccel::sim_bugs
