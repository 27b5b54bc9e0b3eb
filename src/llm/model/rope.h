// Rotary position embedding tables.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// Returns the angle per position for each rotated pair in a head, as a float32 host tensor.
/// `length` matters only for dynamic scaling and longrope, which lower the frequencies for longer
/// sequences. Computed in float32, as in transformers' modeling_rope_utils.
at::Tensor rope_frequencies(const ModelConfig& config, std::int64_t length);

/// Cosines and sines of positions 0..length-1 on the accelerator, float32 [length, rotated pairs].
/// Created lazily. Not thread-safe.
class RopeTables {
 public:
  explicit RopeTables(const ModelConfig& config);
  /// Returns rows begin..begin+count-1 for a sequence of length begin+count.
  std::pair<at::Tensor, at::Tensor> rows(std::int64_t begin, std::int64_t count);

  /// Like rows(), for sliding-window layers, which may use different frequencies.
  std::pair<at::Tensor, at::Tensor> window_rows(std::int64_t begin, std::int64_t count) {
    return window_ ? window_->rows(begin, count) : rows(begin, count);
  }

  /// Returns complete tables of at least `count` rows for a sequence of `length`. Later calls to
  /// rows() do not change them.
  std::pair<at::Tensor, at::Tensor> tables(std::int64_t length, std::int64_t count);
  std::pair<at::Tensor, at::Tensor> window_tables(std::int64_t length, std::int64_t count) {
    return window_ ? window_->tables(length, count) : tables(length, count);
  }
  /// Identifies the frequencies for a sequence of `length`: equal results mean equal frequencies.
  std::int64_t scaling(std::int64_t length) const;

 private:
  void prepare(std::int64_t length, std::int64_t count);
  void build(std::int64_t length);
  ModelConfig config_;
  std::int64_t length_ = 0;   ///< number of rows in the tables
  std::int64_t scaled_ = -1;  ///< sequence length for which the frequencies were computed
  at::Tensor cos_, sin_;
  std::shared_ptr<RopeTables> window_;
};

}  // namespace anyaccel::llm
