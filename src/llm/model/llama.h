// The forward pass of a Llama model.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "anyaccel/llm/config.h"
#include "llm/model/kv_cache.h"
#include "llm/model/rope.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// One of several sequences in a pass: the cache that its tokens extend, and the number of tokens.
struct Segment {
  KvCache* cache;
  std::int64_t time;
};

/// Dropout masks for one step, two per layer: after attention and after the feed-forward layer,
/// each [batch, time, hidden].
using DropoutMasks = std::vector<at::Tensor>;

/// Returns logits [batch, time, vocab] for token ids [batch, time] (int64, on the accelerator).
/// With a cache, the ids extend its positions. `last_only`: return only the last position, [batch,
/// 1, vocab].
at::Tensor llama_forward(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                         const at::Tensor& ids, KvCache* cache = nullptr, bool last_only = false,
                         const DropoutMasks* masks = nullptr);

/// Computes several sequences together and returns the logits [sequences, vocab] after each of
/// them. `ids` [1, total] are the sequences' next tokens, concatenated. There is no padding, and
/// sequences do not attend to each other. With a DecodeStep, the logits are bitwise equal to those
/// of a separate llama_forward() call for each sequence.
at::Tensor llama_forward_segments(const Weights& weights, const ModelConfig& config,
                                  RopeTables& rope, const at::Tensor& ids,
                                  const std::vector<Segment>& segments);

}  // namespace anyaccel::llm
