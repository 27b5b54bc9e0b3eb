// A model's work on one sequence, which is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "anyaccel/llm/model.h"
#include "llm/model/llama.h"

namespace anyaccel::llm {

/// The ids that a model has seen, with their keys and values. Not thread-safe.
class Sequence {
 public:
  explicit Sequence(Model model) : model_(std::move(model)) {}

  const Model& model() const noexcept { return model_; }
  /// Forgets what does not begin `ids`, and at least their last one, and makes room for `capacity`
  /// positions in all. Returns how many positions are kept.
  std::int64_t begin(std::span<const std::int64_t> ids, std::int64_t capacity);
  /// The logits after each of the ids that follow, or after the last alone: float32 on the host,
  /// [ids or 1, vocab].
  at::Tensor append(std::span<const std::int64_t> ids, bool last_only);
  /// Forgets the positions from `length` on.
  void truncate(std::int64_t length);
  std::int64_t length() const noexcept { return static_cast<std::int64_t>(ids_.size()); }

 private:
  Model model_;
  std::optional<KvCache> cache_;
  std::vector<std::int64_t> ids_;  ///< those in the cache
};

/// A row of host logits.
inline std::span<const float> row_of(const at::Tensor& host, std::int64_t row) {
  const auto size = static_cast<std::size_t>(host.size(-1));
  return {host.const_data_ptr<float>() + static_cast<std::size_t>(row) * size, size};
}

/// Some rotations turn a longer sequence's keys otherwise than a shorter one's: then what was
/// computed for one is not the other's. `from`, `to`: lengths.
bool same_rotation(const ModelConfig& config, std::int64_t from, std::int64_t to);

}  // namespace anyaccel::llm
