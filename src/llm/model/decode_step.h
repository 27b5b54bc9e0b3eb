// The pass over few new tokens through the op that does all layers at once, where there is one for the device.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

class KvCache;
class RopeTables;
class Shards;
struct Weights;

/// A model's weights in the order that the op `inference_decode` reads them. They are the model's own, not copies: weights that are
/// changed in place are seen. Thread-safe but for what the cache and the tables of angles are not.
class DecodeStep {
 public:
  /// Null where the op has nothing for the weights' device or their types, or the family has something that it does not know.
  static std::unique_ptr<DecodeStep> make(const Weights& weights, const ModelConfig& config);

  /// The one of these weights, made when it is first asked for; null where there is none.
  static const DecodeStep* of(const Weights& weights, const ModelConfig& config);

  /// Whether a pass over so many rows goes this way.
  static bool takes(std::int64_t batch, std::int64_t time);

  /// `x`: embedded tokens [1, time, hidden]. Float32 logits [1, time, vocab], in front of the soft cap. The new positions are
  /// stored in `cache` but do not count yet.
  at::Tensor run(const at::Tensor& x, RopeTables& rope, KvCache& cache) const;
  /// The same where ranks hold the model together: half a layer at a time, whose sums go over the ranks.
  at::Tensor run(const at::Tensor& x, RopeTables& rope, KvCache& cache, Shards& shards) const;

 private:
  DecodeStep() = default;

  using List = c10::List<std::optional<at::Tensor>>;
  std::vector<at::Tensor> angles(RopeTables& rope, std::int64_t past, std::int64_t time) const;

  List weights_;              ///< of all layers, then what comes behind them
  std::vector<List> layers_;  ///< where ranks hold the model together: of each layer
  List last_;                 ///< and what comes behind them
  std::vector<std::int64_t> sizes_, windows_;
  std::vector<double> numbers_;
  std::int64_t outputs_ = 0;
  bool rotates_ = true, window_angles_ = false;
};

}  // namespace anyaccel::llm
