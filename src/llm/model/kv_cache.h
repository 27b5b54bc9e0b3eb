// Keys and values of a sequence.
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

/// Keys and values of earlier positions, so that each new token costs one position. Not
/// thread-safe.
class KvCache {
 public:
  /// Room for `capacity` positions; memory is taken on the current device at once.
  KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity,
          c10::ScalarType dtype);

  std::int64_t length() const noexcept { return length_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  /// Stores a layer's new keys and values [batch, kv_heads, time, head_dim]; returns those of all
  /// positions.
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& key,
                                           const at::Tensor& value);
  /// Throws `invalid_argument` when there is no room for so many more.
  void check_room(std::int64_t time) const;
  /// Of all layers, [batch, kv_heads, capacity, head_dim].
  const std::vector<at::Tensor>& keys() const noexcept { return keys_; }
  const std::vector<at::Tensor>& values() const noexcept { return values_; }
  /// Call after the last layer: the new positions count from now on.
  void advance(std::int64_t time);
  /// Forgets the positions from `length` on; those before it stay as they are. `length`: 0 to
  /// length().
  void truncate(std::int64_t length) { length_ = length; }
  /// Makes room for `capacity` positions and keeps those that there are.
  void reserve(std::int64_t capacity);
  /// Zeros behind the positions that there are: what is masked out must be finite. Costs something
  /// only when something was forgotten.
  void clear_rest();
  /// The graphs over this memory; others once it is other memory.
  GraphStep& graph_step();

 private:
  std::vector<at::Tensor> keys_, values_;
  std::int64_t length_ = 0;
  std::int64_t capacity_;
  std::int64_t written_;  ///< positions from here on are zeros
  std::shared_ptr<GraphStep> graph_step_;
};

}  // namespace anyaccel::llm
