// KV cache of a sequence.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

class GraphStep;

/// Keys and values of earlier positions, so that a pass computes only new positions. Not
/// thread-safe.
class KvCache {
 public:
  /// Allocates memory for `capacity` positions on the current device.
  KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity,
          c10::ScalarType dtype);

  std::int64_t length() const noexcept { return length_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  /// Stores a layer's new keys and values [batch, kv_heads, time, head_dim]. Returns the keys and
  /// values of all positions.
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& key,
                                           const at::Tensor& value);
  /// Throws `invalid_argument` if `time` more positions do not fit.
  void check_room(std::int64_t time) const;
  /// Keys and values of each layer, [batch, kv_heads, capacity, head_dim].
  const std::vector<at::Tensor>& keys() const noexcept { return keys_; }
  const std::vector<at::Tensor>& values() const noexcept { return values_; }
  /// Adds the new positions to length(). Call after the last layer.
  void advance(std::int64_t time);
  /// Drops the positions from `length` on, 0 <= length <= length().
  void truncate(std::int64_t length) { length_ = length; }
  /// Grows the capacity to at least `capacity` and keeps the stored positions.
  void reserve(std::int64_t capacity);
  /// Fills the memory after the stored positions with zeros, because even masked values must be
  /// finite. No-op unless positions were dropped.
  void clear_rest();
  /// The graphs that use this memory. reserve() discards them if it reallocates the memory.
  GraphStep& graph_step();

 private:
  std::vector<at::Tensor> keys_, values_;
  std::int64_t length_ = 0;
  std::int64_t capacity_;
  std::int64_t written_;  ///< positions from here on contain zeros
  std::shared_ptr<GraphStep> graph_step_;
};

}  // namespace anyaccel::llm
