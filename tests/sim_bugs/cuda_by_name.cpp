// The source contains "cuda:0", although the rest of the program uses the selected accelerator.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(cuda_by_name, "other_accelerator", "aten::", "") {
  at::zeros({4}, at::TensorOptions().device(fixed ? get_accelerator().device_name(0) : "cuda:0"));
}

}  // namespace anyaccel::sim_bugs
