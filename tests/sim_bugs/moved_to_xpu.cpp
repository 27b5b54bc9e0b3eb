// A tensor is moved to the device type of another vendor with tensor.to().
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(moved_to_xpu, "other_accelerator", "aten::", "float32 [3]") {
  const auto device = fixed ? on().device() : c10::Device("xpu");
  at::ones({3}, on()).to(device);
}

}  // namespace anyaccel::sim_bugs
