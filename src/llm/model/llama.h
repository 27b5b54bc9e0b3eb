// The forward pass of a Llama model.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "anyaccel/llm/config.h"
#include "llm/model/rope.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// Keys and values of earlier positions, so that each new token costs one position. Not thread-safe.
class KvCache {
 public:
  /// Room for `capacity` positions; memory is taken on the current device at once.
  KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, c10::ScalarType dtype);

  std::int64_t length() const noexcept { return length_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  /// Stores a layer's new keys and values [batch, kv_heads, time, head_dim]; returns those of all positions.
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& key, const at::Tensor& value);
  /// Throws `invalid_argument` when there is no room for so many more.
  void check_room(std::int64_t time) const;
  /// Of all layers, [batch, kv_heads, capacity, head_dim].
  const std::vector<at::Tensor>& keys() const noexcept { return keys_; }
  const std::vector<at::Tensor>& values() const noexcept { return values_; }
  /// Call after the last layer: the new positions count from now on.
  void advance(std::int64_t time) { length_ += time; }
  /// Forgets the positions from `length` on; those before it stay as they are. `length`: 0 to length().
  void truncate(std::int64_t length) { length_ = length; }
  /// Makes room for `capacity` positions and keeps those that there are.
  void reserve(std::int64_t capacity);

 private:
  std::vector<at::Tensor> keys_, values_;
  std::int64_t length_ = 0;
  std::int64_t capacity_;
};

/// One of several sequences of a pass: the cache that its tokens follow, and how many they are.
struct Segment {
  KvCache* cache;
  std::int64_t time;
};

/// Masks of one step for dropout after attention and after the feed-forward part: two per layer, [batch, time, hidden].
using DropoutMasks = std::vector<at::Tensor>;

/// Logits [batch, time, vocab] of token ids [batch, time] (int64, on the accelerator). With a cache the ids follow the
/// positions in it. `last_only`: the last position's logits alone, [batch, 1, vocab].
at::Tensor llama_forward(const Weights& weights, const ModelConfig& config, RopeTables& rope, const at::Tensor& ids,
                         KvCache* cache = nullptr, bool last_only = false, const DropoutMasks* masks = nullptr);

/// The logits after each of several sequences, [sequences, vocab], computed together: `ids` [1, all] are the first one's
/// next tokens, then the second one's, and so on. Nothing is padded, and none sees another. Where there is a DecodeStep a
/// sequence's have the bits that llama_forward() gives it alone.
at::Tensor llama_forward_segments(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                                  const at::Tensor& ids, const std::vector<Segment>& segments);

}  // namespace anyaccel::llm
