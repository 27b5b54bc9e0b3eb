// Arrays of the optimizers that have one state in addition to parameters and gradients (Adagrad,
// Lion). Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// Arrays of one tensor. Gradients and states are float or have the parameters' type.
struct OneStateArrays {
  void* params;
  const void* grads;
  void* states;
  Element param;
  Element grad;
  Element state;
};

}  // namespace anyaccel::ops
