// The pass over few new tokens through the op that does all layers at once, where there is one for
// the device.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/llm/config.h"
#include "anyaccel/ops/decoder.h"

namespace anyaccel::llm {

class RopeTables;
class Shards;
struct Segment;
struct Weights;

/// A model's weights in the order that the op `inference_decode` reads them. They are the model's
/// own, not copies: weights that are changed in place are seen. Thread-safe but for what the cache
/// and the tables of angles are not.
class DecodeStep {
 public:
  /// Null where the op has nothing for the weights' device or their types, or the family has
  /// something that it does not know.
  static std::unique_ptr<DecodeStep> make(const Weights& weights, const ModelConfig& config);

  /// The one of these weights, made when it is first asked for; null where there is none.
  static const DecodeStep* of(const Weights& weights, const ModelConfig& config);

  /// New tokens of all sequences together that a pass takes and that have the same bits together
  /// and alone.
  static constexpr std::int64_t max_rows = ops::max_decode_rows;
  static bool takes(std::int64_t rows) { return rows <= max_rows; }
  /// New tokens of one sequence that a pass of many can go this way with; 0: prompts go another
  /// way.
  std::int64_t prompt_rows() const { return prompt_rows_; }

  /// `x`: embedded tokens [1, rows, hidden], of the first segment, then of the second one, ...
  /// Float32 logits [1, rows, vocab], in front of the soft cap. The new positions are stored in the
  /// segments' caches, of one sequence each, but do not count yet. A token's logits have the same
  /// bits whatever tokens and sequences are beside it. `last_only`: of each segment's last token,
  /// [1, segments, vocab]. `shards`: the ranks that hold the model together, all of which call it.
  at::Tensor run(const at::Tensor& x, RopeTables& rope, const std::vector<Segment>& segments,
                 bool last_only, Shards* shards) const;

 private:
  DecodeStep() = default;

  /// All layers in one call, which adds up over the ranks of a group: Shards::sums().
  at::Tensor run_whole(const at::Tensor& x, RopeTables& rope, const std::vector<Segment>& segments,
                       bool last_only, const std::string& group, std::int64_t sums) const;
  /// Half a layer at a time, whose sums go over the ranks in between: where they share no memory.
  at::Tensor run_halves(const at::Tensor& x, RopeTables& rope, const std::vector<Segment>& segments,
                        bool last_only, Shards& shards) const;

  using List = c10::List<std::optional<at::Tensor>>;
  std::vector<at::Tensor> angles(RopeTables& rope, const std::vector<Segment>& segments) const;

  List weights_;              ///< of all layers, then what comes behind them
  std::vector<List> layers_;  ///< where ranks hold the model together: of each layer alone
  List last_;                 ///< what comes behind them
  ops::DecoderConfig config_;
  std::vector<ops::DecoderLayerConfig> layer_configs_;
  std::vector<std::int64_t> packed_;  ///< config_ and layer_configs_, without sums
  std::int64_t outputs_ = 0, prompt_rows_ = 0;
  bool rotates_ = true, window_angles_ = false;
};

}  // namespace anyaccel::llm
