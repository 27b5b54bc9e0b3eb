// Arguments of a transformer layer and their validation.
#pragma once

#include <tuple>

#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// Arguments for the forward and backward passes. docs/reference/ops-attention.md lists their
/// shapes.
struct TransformerArguments {
  const Tensor& input;
  const OptionalTensor& attention_mask;
  const Tensor &attn_qkvw, &attn_qkvb, &attn_ow, &attn_ob, &attn_nw, &attn_nb, &inter_w, &inter_b,
      &output_w, &output_b, &norm_w, &norm_b;
  std::int64_t heads;
  double attn_dropout, hidden_dropout, eps;
  std::int64_t seed;
  bool pre_layer_norm, attn_dropout_checkpoint, normalize_invertible, gelu_checkpoint,
      stochastic_mode;
  c10::string_view gelu_approximate;

  bool has_mask() const { return attention_mask && attention_mask->defined(); }
  bool tanh() const { return gelu_approximate == "tanh"; }
};

/// The parameter list and the argument list of the op, in the order of the struct.
#define ANYACCEL_TRANSFORMER_GIVEN                                                                \
  const Tensor &input, const OptionalTensor &attention_mask, const Tensor &attn_qkvw,             \
      const Tensor &attn_qkvb, const Tensor &attn_ow, const Tensor &attn_ob,                      \
      const Tensor &attn_nw, const Tensor &attn_nb, const Tensor &inter_w, const Tensor &inter_b, \
      const Tensor &output_w, const Tensor &output_b, const Tensor &norm_w, const Tensor &norm_b, \
      std::int64_t heads, double attn_dropout, double hidden_dropout, double eps,                 \
      std::int64_t seed, bool pre_layer_norm, bool attn_dropout_checkpoint,                       \
      bool normalize_invertible, bool gelu_checkpoint, bool stochastic_mode,                      \
      c10::string_view gelu_approximate
#define ANYACCEL_TRANSFORMER_PASSED                                                                \
  input, attention_mask, attn_qkvw, attn_qkvb, attn_ow, attn_ob, attn_nw, attn_nb, inter_w,        \
      inter_b, output_w, output_b, norm_w, norm_b, heads, attn_dropout, hidden_dropout, eps, seed, \
      pre_layer_norm, attn_dropout_checkpoint, normalize_invertible, gelu_checkpoint,              \
      stochastic_mode, gelu_approximate

/// Tensors that the forward pass saves for the backward pass. The names are the same as in
/// DeepSpeed. Tensors that an option makes unnecessary are empty.
///
/// With pre_layer_norm: inp_norm = norm(input), add_res = input + attention, ff1_inp =
/// norm(add_res). Without pre_layer_norm: add_res = input + attention, ff1_inp = norm(add_res), and
/// inp_norm is the input of the last norm. attn_stats is [batch, heads, length, 2]. The stats of
/// the two norms have one row (mean, 1 / deviation) per token.
struct TransformerKept {
  Tensor inp_norm, qkv, attn_stats, attn_out, add_res, ff1_inp, gelu_inp, ff2_inp, attn_norm_stats,
      norm_stats;
};
using TransformerForward = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                                      Tensor, Tensor, Tensor, Tensor>;
/// Gradients of the input and of the twelve parameters.
using TransformerBackward = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                                       Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

/// Checks dtypes, dimensions and options. Also works with meta tensors.
void check_transformer(const TransformerArguments& arguments);
/// Checks sizes, and that all tensors are on the input's device.
void check_transformer_sizes(const TransformerArguments& arguments);
/// Like check_transformer_sizes(), and also checks that the tensors are in host memory.
void check_transformer_on_host(const TransformerArguments& arguments);

/// Checks the additional arguments for the backward pass.
void check_transformer_kept(const TransformerArguments& arguments, const Tensor& grad_out,
                            const Tensor& output, const TransformerKept& kept);

TransformerForward transformer_forward(const TransformerArguments& arguments, bool keep);
TransformerBackward transformer_backward(const TransformerArguments& arguments,
                                         const Tensor& grad_out, const Tensor& output,
                                         const TransformerKept& kept);

}  // namespace anyaccel::ops
