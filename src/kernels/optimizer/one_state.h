// Arrays for optimizers that keep a single state per parameter (Adagrad and Lion). Independent of
// torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// Arrays of one tensor. Gradients and states are float or have the type of the parameters.
struct OneStateArrays {
  void* params;
  const void* grads;
  void* states;
  Element param;
  Element grad;
  Element state;
};

}  // namespace anyaccel::ops
