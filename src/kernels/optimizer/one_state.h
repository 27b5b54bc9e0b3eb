// Optimizers with one state beside parameters and gradients (Adagrad, Lion), without torch: what a
// step works on.
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
