// A sequence and its KV cache, which persist between calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "anyaccel/llm/model.h"
#include "llm/model/llama.h"

namespace anyaccel::llm {

/// The ids that a model has processed, with their keys and values. Not thread-safe.
class Sequence {
 public:
  explicit Sequence(Model model) : model_(std::move(model)) {}

  const Model& model() const noexcept { return model_; }
  /// Keeps the longest common prefix with `ids`, except for the last id, and reserves room for
  /// `capacity` positions in total. Returns the number of positions kept.
  std::int64_t begin(std::span<const std::int64_t> ids, std::int64_t capacity);
  /// Processes the next ids. Returns float32 host logits [n, vocab] for each id, or only for the
  /// last one.
  at::Tensor append(std::span<const std::int64_t> ids, bool last_only);
  /// Drops all positions from `length` on.
  void truncate(std::int64_t length);
  std::int64_t length() const noexcept { return static_cast<std::int64_t>(ids_.size()); }

 private:
  Model model_;
  std::optional<KvCache> cache_;
  std::vector<std::int64_t> ids_;  ///< ids in the cache
};

/// Returns a row of host logits.
inline std::span<const float> row_of(const at::Tensor& host, std::int64_t row) {
  const auto size = static_cast<std::size_t>(host.size(-1));
  return {host.const_data_ptr<float>() + static_cast<std::size_t>(row) * size, size};
}

/// Returns whether sequences of the lengths `from` and `to` use the same rotary frequencies. If
/// they do not, keys cached for one length are invalid for the other.
bool same_rotation(const ModelConfig& config, std::int64_t from, std::int64_t to);

}  // namespace anyaccel::llm
