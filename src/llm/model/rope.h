// Tables of the rotary position embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// Angle per position of each pair of a head: host float32, one per rotated pair. `length` matters
/// to dynamic scaling and longrope alone: longer sequences turn slower. As transformers'
/// modeling_rope_utils, in float32 as there.
at::Tensor rope_frequencies(const ModelConfig& config, std::int64_t length);

/// Cosines and sines of positions 0..length-1 on the accelerator, float32 [length, rotated pairs],
/// made when first needed. Not thread-safe.
class RopeTables {
 public:
  explicit RopeTables(const ModelConfig& config);
  /// Rows begin..begin+count-1 for a sequence whose length is then begin+count.
  std::pair<at::Tensor, at::Tensor> rows(std::int64_t begin, std::int64_t count);

  /// The same for layers with a window, which may turn otherwise.
  std::pair<at::Tensor, at::Tensor> window_rows(std::int64_t begin, std::int64_t count) {
    return window_ ? window_->rows(begin, count) : rows(begin, count);
  }

  /// Whole tables, of `count` rows or more, for a sequence of `length`; they stay as they are when
  /// rows() makes other ones.
  std::pair<at::Tensor, at::Tensor> tables(std::int64_t length, std::int64_t count);
  std::pair<at::Tensor, at::Tensor> window_tables(std::int64_t length, std::int64_t count) {
    return window_ ? window_->tables(length, count) : tables(length, count);
  }
  /// What the angles of a sequence of `length` are for: where it is the same number, they are the
  /// same.
  std::int64_t scaling(std::int64_t length) const;

 private:
  void prepare(std::int64_t length, std::int64_t count);
  void build(std::int64_t length);
  ModelConfig config_;
  std::int64_t length_ = 0;   ///< rows in the tables
  std::int64_t scaled_ = -1;  ///< sequence length that the frequencies are for
  at::Tensor cos_, sin_;
  std::shared_ptr<RopeTables> window_;
};

}  // namespace anyaccel::llm
