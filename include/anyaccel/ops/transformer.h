// BERT-style transformer layers for tensors in host memory and on CUDA (untested on hardware), with
// the names and options of DeepSpeed's DeepSpeedTransformerLayer. Link `anyaccel::ops`.
// docs/reference/ops-attention.md describes the Python interface.
//
//     ops::TransformerLayer layer({.hidden_size = 768, .heads = 12});
//     const at::Tensor out = layer.forward(hidden_states);  // [batch, length, 768]
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Options for a layer.
struct TransformerConfig {
  /// Width of the input and the output.
  std::int64_t hidden_size = 0;
  /// Width of the feed-forward part. 0: 4 * hidden_size.
  std::int64_t intermediate_size = 0;
  std::int64_t heads = 0;  ///< number of heads; must divide hidden_size
  /// Dropout ratio for the attention weights, 0 <= ratio < 1.
  double attn_dropout_ratio = 0;
  /// Dropout ratio for the terms that are added to a residual, 0 <= ratio < 1.
  double hidden_dropout_ratio = 0;
  /// Number of layers in the model. With adjust_init_range, the initial weights of the two
  /// projections that feed a residual sum are divided by sqrt(2 * num_hidden_layers).
  std::int64_t num_hidden_layers = 0;
  /// Standard deviation of the initial weights.
  double initializer_range = 0.02;
  /// Norm epsilon.
  double layer_norm_eps = 1e-12;
  /// Seed for dropout. Negative: torch's default generator provides a seed for each call.
  std::int64_t seed = -1;
  /// Normalize before attention and before the feed-forward part. False: after each residual, as in
  /// BERT.
  bool pre_layer_norm = true;
  /// Save memory: recompute the inputs of the norms from their outputs. All norm weights must be
  /// nonzero.
  bool normalize_invertible = false;
  /// Save memory: recompute the activation in the backward pass. Results are bit-identical.
  bool gelu_checkpoint = false;
  /// Scale some initial weights; see num_hidden_layers.
  bool adjust_init_range = true;
  /// No effect: masks and attention weights are never stored.
  bool attn_dropout_checkpoint = false;
  /// Allow nondeterministic results. Results on the CPU are always deterministic.
  bool stochastic_mode = false;
  /// "tanh" as in DeepSpeed, or "none" as in BERT.
  std::string gelu_approximate = "tanh";
};

/// A transformer layer. Parameters have DeepSpeed's names and shapes:
///
/// - attn_qkvw [3 * hidden, hidden], attn_qkvb [3 * hidden]: query, key and value
/// - attn_ow [hidden, hidden], attn_ob [hidden]: attention output projection
/// - attn_nw, attn_nb [hidden]: norm after attention
/// - inter_w [intermediate, hidden], inter_b [intermediate]: up projection of the feed-forward part
/// - output_w [hidden, intermediate], output_b [hidden]: down projection of the feed-forward part
/// - norm_w, norm_b [hidden]: the first norm with pre_layer_norm, otherwise the last
///
/// Throws `invalid_argument` for invalid arguments, and `build_failed` or `unavailable` if the op
/// cannot be loaded. Threads may call forward() concurrently, unless dropout is active and a seed
/// is set. Functions that change the layer must not run concurrently with it.
class ANYACCEL_API TransformerLayer {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

  /// Create a layer in host memory, with normally distributed matrices, norm weights of 1 and
  /// biases of 0. The parameters are leaves that require gradients. `dtype`: float32, bfloat16,
  /// float16 or float64.
  explicit TransformerLayer(TransformerConfig config, at::ScalarType dtype = at::kFloat);

  /// Apply the layer.
  ///
  /// - hidden_states: [batch, length, hidden_size] of the parameters' dtype, with any strides.
  /// - attention_mask: undefined, a floating-point mask that is added to the scores, or a bool mask
  ///   that is false for masked keys. Broadcasts to [batch, heads, length, length].
  ///
  /// Returns a contiguous tensor with the shape of hidden_states. Arithmetic is in float32, or in
  /// float64 for float64. The attention of a query whose keys are all masked is zero. First
  /// derivatives are supported, for the input and all parameters.
  at::Tensor forward(const at::Tensor& hidden_states, const at::Tensor& attention_mask = {});

  /// Names and tensors of the parameters, in the order listed in the class description.
  const Parameters& named_parameters() const noexcept { return parameters_; }
  /// Return a parameter. Throws `invalid_argument` for an unknown name.
  at::Tensor& parameter(const std::string& name);
  const TransformerConfig& config() const noexcept { return config_; }

  /// Enable or disable training mode, in which dropout is active. A new layer is in training mode.
  void train(bool on = true) noexcept { training_ = on; }
  /// Leave training mode.
  void eval() noexcept { train(false); }
  bool is_training() const noexcept { return training_; }

  /// Copy weights from a BertLayer in Hugging Face's transformers. Their names begin with `prefix`,
  /// for example `prefix` + "attention.self.query.weight". Such a layer requires pre_layer_norm
  /// false, and gelu_approximate "none" for its activation "gelu".
  void load_hugging_face(const std::map<std::string, at::Tensor>& tensors,
                         const std::string& prefix = "");

 private:
  std::int64_t next_seed();

  TransformerConfig config_;
  Parameters parameters_;
  std::uint64_t calls_ = 0;
  bool training_ = true;
};

/// DeepSpeed's name for TransformerConfig.
using DeepSpeedTransformerConfig = TransformerConfig;
/// DeepSpeed's name for TransformerLayer.
using DeepSpeedTransformerLayer = TransformerLayer;

}  // namespace anyaccel::ops
