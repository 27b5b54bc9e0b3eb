// Mixture-of-experts layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "anyaccel/llm/config.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// For each token in [batch, time, hidden], returns the weighted sum of the outputs of its
/// `experts_per_token` most probable experts. Reads the choice of experts on the host, so it cannot
/// be captured into a graph.
at::Tensor run_experts(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x);

}  // namespace anyaccel::llm
