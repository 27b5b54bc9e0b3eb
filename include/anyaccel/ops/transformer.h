// BERT-style transformer layers on host memory, with the names and options of DeepSpeed's
// DeepSpeedTransformerLayer. Link `anyaccel::ops`. docs/reference/ops-attention.md has the Python
// side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Options of a layer.
struct TransformerConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  ///< 0: 4 * hidden_size
  std::int64_t heads = 0;              ///< divides hidden_size
  double attn_dropout_ratio = 0;       ///< of the softmax's results; 0 <= ratio < 1
  double hidden_dropout_ratio = 0;     ///< of what is added to a residual; 0 <= ratio < 1
  std::int64_t num_hidden_layers =
      0;  ///< with adjust_init_range: weights in front of residuals begin smaller by sqrt(2 * this)
  double initializer_range = 0.02;  ///< deviation of the weights at first
  double layer_norm_eps = 1e-12;
  std::int64_t seed =
      -1;  ///< of the dropouts; negative: torch's default generator gives one for each call
  bool pre_layer_norm =
      true;  ///< norms before attention and feed-forward part; else after each residual, as BERT's
  bool normalize_invertible =
      false;  ///< keeps less: norms' inputs are calculated back; no norm's weight may be 0
  bool gelu_checkpoint = false;  ///< keeps less: the activation is calculated again; same bits
  bool adjust_init_range = true;
  bool attn_dropout_checkpoint =
      false;  ///< as if always on: no mask and no attention weights are ever kept
  bool stochastic_mode =
      false;  ///< allows results that differ from run to run; the processor's do not
  std::string gelu_approximate = "tanh";  ///< "tanh" as DeepSpeed's, or "none" as BERT's
};

/// One layer. Parameters have DeepSpeed's names and shapes: attn_qkvw [3 * hidden, hidden],
/// attn_qkvb [3 * hidden], attn_ow [hidden, hidden], attn_ob, attn_nw, attn_nb (the norm behind the
/// attention), inter_w [intermediate, hidden], inter_b, output_w [hidden, intermediate], output_b,
/// norm_w, norm_b (the first norm with pre_layer_norm, else the last).
///
/// Errors are `invalid_argument`; `build_failed` or `unavailable` from loading the op. forward()
/// may be called by several threads, unless dropouts are on and a seed is given; what changes the
/// layer may not run beside it.
class ANYACCEL_API TransformerLayer {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

  /// Parameters are leaves that want gradients, normally distributed, on the host, of `dtype`:
  /// float32, bfloat16, float16, float64.
  explicit TransformerLayer(TransformerConfig config, at::ScalarType dtype = at::kFloat);

  /// hidden_states: [batch, length, hidden_size] of the parameters' dtype, any strides; the result
  /// is contiguous. `attention_mask`, if defined: what is added to the scores, or bool, true for
  /// what is seen; it expands to [batch, heads, length, length]. Arithmetic is in float32, or
  /// float64 for float64. A query that sees nothing gets zeros from the attention. Differentiable
  /// once, for the input and all parameters.
  at::Tensor forward(const at::Tensor& hidden_states, const at::Tensor& attention_mask = {});

  /// Names and tensors, in the order above.
  const Parameters& named_parameters() const noexcept { return parameters_; }
  /// `invalid_argument` for a name that is none.
  at::Tensor& parameter(const std::string& name);
  const TransformerConfig& config() const noexcept { return config_; }

  /// Dropouts are on in training, as after construction.
  void train(bool on = true) noexcept { training_ = on; }
  void eval() noexcept { train(false); }
  bool is_training() const noexcept { return training_; }

  /// Copies the weights of a BertLayer of Hugging Face's transformers: names are `prefix` +
  /// "attention.self.query.weight" and so on. Such a layer has pre_layer_norm false, and
  /// gelu_approximate "none" for its activation "gelu".
  void load_hugging_face(const std::map<std::string, at::Tensor>& tensors,
                         const std::string& prefix = "");

 private:
  std::int64_t next_seed();

  TransformerConfig config_;
  Parameters parameters_;
  std::uint64_t calls_ = 0;
  bool training_ = true;
};

using DeepSpeedTransformerConfig = TransformerConfig;
using DeepSpeedTransformerLayer = TransformerLayer;

}  // namespace anyaccel::ops
