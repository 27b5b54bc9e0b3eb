// A batch was moved to the device, but its targets were not.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(targets_left_on_the_host, "wrong_device", "mse_loss", "float32 [8] on cpu") {
  const auto input = at::ones({8}, on());
  const auto target = at::ones({8});
  at::mse_loss(input, fixed ? target.to(on().device()) : target);
}

}  // namespace anyaccel::sim_bugs
