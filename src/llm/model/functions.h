// Parts of a Llama layer for which torch has no single differentiable op. Each saves the tensors
// that its backward pass needs. The gradients of a fused projection are written into one buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace anyaccel::llm {

/// Returns whether gradients of x are recorded and the op `decoder_training` computes them.
bool trains_by_op(const at::Tensor& x);

/// x / rms(x) * weight over the last dimension, computed in float32 (arXiv:1910.07467). The result
/// has x's dtype unless the weight's dtype is wider.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// silu(gate) * up for [..., 2 * inner] with the gate first (arXiv:2002.05202). Returns [...,
/// inner].
at::Tensor swiglu(const at::Tensor& gate_up);

/// Splits a fused projection [batch, time, (heads + 2 * kv_heads) * head_dim] into query, key and
/// value, each [batch, heads, time, head_dim], and rotates query and key by their positions. `cos`,
/// `sin`: [time, half] or [batch, time, half] with half <= head_dim / 2. Elements of a head from 2
/// * half on are not rotated.
std::tuple<at::Tensor, at::Tensor, at::Tensor> rotary_split(const at::Tensor& qkv,
                                                            const at::Tensor& cos,
                                                            const at::Tensor& sin,
                                                            std::int64_t heads,
                                                            std::int64_t kv_heads);

}  // namespace anyaccel::llm
