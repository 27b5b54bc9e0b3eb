// The forward pass of a Llama model.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "anyaccel/llm/config.h"
#include "llm/model/kv_cache.h"
#include "llm/model/rope.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// One of several sequences of a pass: the cache that its tokens follow, and how many they are.
struct Segment {
  KvCache* cache;
  std::int64_t time;
};

/// Masks of one step for dropout after attention and after the feed-forward part: two per layer,
/// [batch, time, hidden].
using DropoutMasks = std::vector<at::Tensor>;

/// Logits [batch, time, vocab] of token ids [batch, time] (int64, on the accelerator). With a cache
/// the ids follow the positions in it. `last_only`: the last position's logits alone, [batch, 1,
/// vocab].
at::Tensor llama_forward(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                         const at::Tensor& ids, KvCache* cache = nullptr, bool last_only = false,
                         const DropoutMasks* masks = nullptr);

/// The logits after each of several sequences, [sequences, vocab], computed together: `ids` [1,
/// all] are the first one's next tokens, then the second one's, and so on. Nothing is padded, and
/// none sees another. Where there is a DecodeStep a sequence's have the bits that llama_forward()
/// gives it alone.
at::Tensor llama_forward_segments(const Weights& weights, const ModelConfig& config,
                                  RopeTables& rope, const at::Tensor& ids,
                                  const std::vector<Segment>& segments);

}  // namespace anyaccel::llm
