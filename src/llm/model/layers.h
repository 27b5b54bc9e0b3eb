// The parts of a decoder layer, implemented with torch's ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "anyaccel/llm/config.h"
#include "llm/model/graph_step.h"
#include "llm/model/kv_cache.h"
#include "llm/model/masks.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// The tokens of one sequence in a pass.
struct BatchSequence {
  KvCache* cache;                  ///< null: the pass starts the sequence
  std::int64_t past, begin, time;  ///< `begin`: column of the first new token
  Masks masks;
  /// If set, the pass has one token with its position on the device; `past` is unused.
  NextToken* next = nullptr;
};

/// The norm that the model uses.
at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config,
                const at::Tensor& bias = {});

/// Returns x if `cap` is 0.
at::Tensor soft_cap(const at::Tensor& x, double cap);

/// Concatenates along `axis`. A single tensor is not copied.
at::Tensor joined(const std::vector<at::Tensor>& rows, std::int64_t axis);

/// Attention output of layer `index`, [batch, time, hidden].
at::Tensor attention(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x,
                     const at::Tensor& cos, const at::Tensor& sin, std::int64_t index,
                     std::vector<BatchSequence>& parts);

at::Tensor feed_forward(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x);

}  // namespace anyaccel::llm
