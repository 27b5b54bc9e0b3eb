// Layers with several feed-forward parts, of which each token takes a few.
#pragma once

#include <ATen/core/Tensor.h>

#include "anyaccel/llm/config.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// What the likeliest `experts_per_token` experts of each token of [batch, time, hidden] give, by
/// their shares. The choice goes over the host, so it cannot be part of a captured graph.
at::Tensor run_experts(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x);

}  // namespace anyaccel::llm
