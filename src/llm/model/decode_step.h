// Computes a pass over a few new tokens with the op `inference_decode`, which runs all layers in
// one call.
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

/// A model's weights in the order that the op `inference_decode` expects. Shares the model's
/// tensors, so in-place changes take effect. Thread-safe, except for the KV caches and the RoPE
/// tables that callers pass.
class DecodeStep {
 public:
  /// Returns null if the op does not support the weights' device or dtype, or the model's family.
  static std::unique_ptr<DecodeStep> make(const Weights& weights, const ModelConfig& config);

  /// Returns the step for these weights; the first call creates it. Returns null if unsupported.
  static const DecodeStep* of(const Weights& weights, const ModelConfig& config);

  /// Maximum number of new tokens in a pass, over all sequences. Up to this number, a token's
  /// results are bitwise independent of the number of tokens.
  static constexpr std::int64_t max_rows = ops::max_decode_rows;
  static bool takes(std::int64_t rows) { return rows <= max_rows; }
  /// Maximum number of new tokens of one sequence in a pass over a prompt; 0: prompts cannot use
  /// this step.
  std::int64_t prompt_rows() const { return prompt_rows_; }

  /// Computes float32 logits [1, rows, vocab], before the soft cap.
  ///
  /// `x`: embedded tokens [1, rows, hidden], in the order of the segments. `last_only`: return only
  /// the logits of each segment's last token, [1, segments, vocab]. `shards`: the ranks that share
  /// the model, all of which must call run(); null for a whole model.
  ///
  /// Stores the new positions in the segments' caches, each of which belongs to one sequence,
  /// without advancing them. A token's logits are bitwise independent of the other tokens and
  /// sequences in the pass.
  at::Tensor run(const at::Tensor& x, RopeTables& rope, const std::vector<Segment>& segments,
                 bool last_only, Shards* shards) const;

 private:
  DecodeStep() = default;

  /// Runs all layers in one call. The op itself all-reduces over the ranks of `group`; see
  /// Shards::sums().
  at::Tensor run_whole(const at::Tensor& x, RopeTables& rope, const std::vector<Segment>& segments,
                       bool last_only, const std::string& group, std::int64_t sums) const;
  /// Makes one call per half layer, with all-reduces in between, for ranks without shared memory.
  at::Tensor run_halves(const at::Tensor& x, RopeTables& rope, const std::vector<Segment>& segments,
                        bool last_only, Shards& shards) const;

  using List = c10::List<std::optional<at::Tensor>>;
  std::vector<at::Tensor> angles(RopeTables& rope, const std::vector<Segment>& segments) const;

  List weights_;              ///< all layers, the final norm and the head
  std::vector<List> layers_;  ///< one list per layer; only if ranks share the model
  List last_;                 ///< the final norm and the head
  ops::DecoderConfig config_;
  std::vector<ops::DecoderLayerConfig> layer_configs_;
  std::vector<std::int64_t> packed_;  ///< config_ and layer_configs_, without all-reduces
  std::int64_t outputs_ = 0, prompt_rows_ = 0;
  bool rotates_ = true, window_angles_ = false;
};

}  // namespace anyaccel::llm
