// In a model split over two devices, one layer gets its input from the wrong device.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(layer_on_second_device, "wrong_device", "aten::", "float32 [6, 6] on sim:1") {
  const auto input = at::ones({2, 6}, on(0));
  const auto weight = at::ones({6, 6}, on(1));
  at::linear(fixed ? input.to(on(1).device()) : input, weight).relu();
}

}  // namespace anyaccel::sim_bugs
