// Mixture-of-experts layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "anyaccel/llm/config.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// Returns the weighted sum of the outputs of the `experts_per_token` most probable experts for
/// each token of [batch, time, hidden]. Reads the choice of experts on the host, so it cannot be
/// captured into a graph.
at::Tensor run_experts(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x);

}  // namespace anyaccel::llm
