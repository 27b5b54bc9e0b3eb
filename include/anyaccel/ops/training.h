// Forward and backward passes of a decoder's parts for fine-tuning. Each function is differentiable
// and makes one pass over memory instead of the several passes of torch's ops. Link
// `anyaccel::ops`.
//
// Tensors in host memory use the op `decoder_training`. All other tensors, and dtypes that the op
// does not support, use torch's ops. Both give the same results up to rounding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Return whether the functions below use the op for this tensor: float32, bfloat16, float16 or
/// float64 in host memory, and the op can be loaded. The first call for a tensor of this kind loads
/// the op, building it first if necessary. If that fails, warns through c10 and returns false.
///
/// That call also reads the environment variable ANYACCEL_TRAINING. With `plain`, this function
/// returns false for every tensor. Values other than `plain`, `auto` and empty throw
/// `invalid_argument`. Thread-safe.
ANYACCEL_API bool has_training_kernels(const at::Tensor& tensor);

/// Return x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang and Sennrich,
/// arXiv:1910.07467). `plus_one` multiplies by 1 + weight instead, as in Gemma.
///
/// - x: [..., width]. weight: [width], of the same dtype; other dtypes use torch's ops.
///
/// Arithmetic is in float32, or in float64 for float64, and the result is rounded once. Saves x and
/// one number per row for the backward pass.
ANYACCEL_API at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                                 bool plus_one = false);

/// Return {rms_norm(x + residual), x + residual}. `x` and `residual` have the same shape and dtype.
/// The sum is rounded to the dtype before the norm, as in transformers.
ANYACCEL_API std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                            const at::Tensor& residual,
                                                            const at::Tensor& weight, double eps,
                                                            bool plus_one = false);

/// Activation function of the gate. relu2 is the square of relu.
enum class GateActivation { silu, gelu, gelu_tanh, relu, relu2 };

/// Return activation(gate) * up, [..., inner], for [..., 2 * inner] with the gate first (SwiGLU and
/// GeGLU, Shazeer, arXiv:2002.05202). Saves only the input for the backward pass.
ANYACCEL_API at::Tensor gated_activation(const at::Tensor& gate_up, GateActivation activation);

/// Split a fused projection into query, key and value, and rotate query and key by their positions
/// (Su et al., arXiv:2104.09864). Element i of a head is rotated with element i + half, as in
/// transformers' Llama; elements from 2 * half on are copied.
///
/// - qkv: [batch, time, (heads + 2 * kv_heads) * head_dim].
/// - cos, sin: float32 [time, half] or [batch, time, half] with half <= head_dim / 2; float64 for
///   float64. They may not require gradients.
///
/// Returns the query, [batch, heads, time, head_dim], and the key and value, [batch, kv_heads,
/// time, head_dim], as transposed views of [batch, time, ...]. Saves only the tables for the
/// backward pass.
ANYACCEL_API std::tuple<at::Tensor, at::Tensor, at::Tensor> rotary_split(const at::Tensor& qkv,
                                                                         const at::Tensor& cos,
                                                                         const at::Tensor& sin,
                                                                         std::int64_t heads,
                                                                         std::int64_t kv_heads);

/// Options for causal_attention().
struct CausalAttentionOptions {
  std::optional<double> scale;  ///< factor for the scores; 1 / sqrt(head_dim) by default
  /// Number of positions that a token attends to, including its own. 0: all.
  std::int64_t window = 0;
  /// Packed sequences: int64 host tensor with the first position of each sequence in a row, in
  /// ascending order, beginning with 0. Tokens attend only to their own sequence, and each row of
  /// the batch has the same boundaries. Undefined: a row is one sequence.
  at::Tensor starts;
};

/// Compute softmax(scale q k^T) v, where each position attends to itself and to earlier positions.
///
/// - q: [batch, heads, time, head_dim]. k, v: [batch, kv_heads, time, head_dim]; kv_heads divides
///   heads. Any strides.
///
/// Returns [batch, heads, time, head_dim] as a transposed view of [batch, time, heads, head_dim].
/// The score matrix is never stored, keys and values are not repeated, and masked blocks are not
/// computed. Arithmetic is in float32, or in float64 for float64. Head dimensions that are not
/// multiples of 16 use torch's ops.
ANYACCEL_API at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v,
                                         const CausalAttentionOptions& options = {});

/// Return x weight^T + bias, like at::linear(). Dtypes for which torch has only slow matrix
/// products on this CPU (float16, and bfloat16 without bf16 instructions) are multiplied in float32
/// and rounded once. Everything else is at::linear().
///
/// - x: [..., inputs]. weight: [outputs, inputs]. bias: [outputs] or undefined.
ANYACCEL_API at::Tensor training_linear(const at::Tensor& x, const at::Tensor& weight,
                                        const at::Tensor& bias = {});

/// Return training_linear(gated_activation(gate_up), weight, bias), the last part of a feed-forward
/// layer. Saves gate_up but not the activation, which the backward pass recomputes.
///
/// - gate_up: [..., 2 * inner]. weight: [outputs, inner]. bias: [outputs] or undefined.
ANYACCEL_API at::Tensor gated_linear(const at::Tensor& gate_up, GateActivation activation,
                                     const at::Tensor& weight, const at::Tensor& bias = {});

/// Options for linear_cross_entropy().
struct LinearCrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< label of rows to exclude
  /// Divide the sum of the losses by this number. 0: by the number of included rows.
  double divisor = 0;
  double softcap = 0;  ///< replace a logit z by softcap * tanh(z / softcap); 0: no cap
};

/// Cross-entropy of hidden weight^T against labels, without memory for all logits. The logits are
/// computed in chunks of rows, and the gradients in the same pass, as in Liger Kernel's
/// FusedLinearCrossEntropy (Hsu et al., arXiv:2410.10989). Excluded rows are skipped.
///
/// - hidden: [..., width]. weight: [vocab, width]. labels: int64 [...], already shifted.
///
/// Returns a 0-d float32 tensor (float64 for float64), which is NaN if all rows are excluded and
/// `divisor` is 0. First derivatives are supported. Throws `invalid_argument` for labels outside
/// the vocabulary.
ANYACCEL_API at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                             const at::Tensor& labels,
                                             const LinearCrossEntropyOptions& options = {});

}  // namespace anyaccel::ops
