// Activation checkpointing: recomputes a layer in the backward pass instead of keeping its
// activations.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "llm/model/weights.h"

namespace anyaccel::llm {

/// Computes a layer for its weights and input.
using LayerFunction = std::function<at::Tensor(const LayerWeights& layer, const at::Tensor& x)>;

/// Returns function(layer, x) and keeps only `x` and the weights for the backward pass, which calls
/// `function` again with the same random numbers and autocast settings. `function` must own
/// the objects that it uses. `random`: whether it draws random numbers.
at::Tensor recompute_in_backward(const LayerWeights& layer, const at::Tensor& x, bool random,
                                 LayerFunction function);

}  // namespace anyaccel::llm
