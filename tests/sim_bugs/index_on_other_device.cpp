// Token positions are on device 0, but the hidden states that they index are on device 1.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(index_on_other_device, "wrong_device", "aten::index", "int64 [3] on sim:0") {
  const auto hidden = at::ones({10, 4}, on(1));
  const auto positions = at::arange(3, on(fixed ? 1 : 0).dtype(at::kLong));
  at::index(hidden, {positions});
}

}  // namespace anyaccel::sim_bugs
