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

/// Dropout in a layer during training. Outside of training, the probabilities are 0.
struct LayerDropout {
  double attention = 0;  ///< on the attention probabilities
  double residual = 0;   ///< on the outputs of attention and of the feed-forward layer
  double adapter = 0;    ///< on the inputs of LoRA adapters
  /// Masks to use instead of `residual`, [batch, time, hidden]; undefined: none.
  at::Tensor after_attention = {}, after_feed_forward = {};
};

/// Attention output of layer `index`, [batch, time, hidden].
at::Tensor attention(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x,
                     const at::Tensor& cos, const at::Tensor& sin, std::int64_t index,
                     std::vector<BatchSequence>& parts, const LayerDropout& dropout = {});

at::Tensor feed_forward(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x,
                        const LayerDropout& dropout = {});

/// Output of decoder layer `index` for the residual stream `x`, [batch, time, hidden]. `shards`:
/// the ranks that share the model, or null.
at::Tensor decoder_layer(const LayerWeights& layer, const ModelConfig& config, at::Tensor x,
                         const Rotation& rotation, std::int64_t index,
                         std::vector<BatchSequence>& parts, Shards* shards,
                         const LayerDropout& dropout = {});

/// Embedded tokens without positions: scaled, and projected to the layers' width. `padding`: token
/// whose embedding gets no gradient, or -1.
at::Tensor embed_tokens(const Weights& weights, const ModelConfig& config, const at::Tensor& ids,
                        std::int64_t padding = -1);

/// Input of the head for the last layer's output.
at::Tensor head_input(const Weights& weights, const ModelConfig& config, const at::Tensor& x);

}  // namespace anyaccel::llm
