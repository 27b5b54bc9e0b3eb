#include "llm/model/functions.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "anyaccel/ops/training.h"

namespace anyaccel::llm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// at::rms_norm is as fast in inference, but 1.5 to 4 times slower with its backward pass on a CPU
// (benchmarks/torch_functions.bench.py).
class RmsNorm : public Function<RmsNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const at::Tensor wide = x.to(c10::kFloat);
    at::Tensor scale = at::linalg_vector_norm(wide, 2, at::IntArrayRef{-1}, /*keepdim=*/true);
    scale.square_().div_(static_cast<double>(x.size(-1))).add_(eps).rsqrt_();
    const at::Tensor normal = wide.mul(scale);
    context->save_for_backward({normal, scale, weight});
    context->saved_data["dtype"] = static_cast<std::int64_t>(x.scalar_type());
    return normal.to(x.scalar_type()).mul(weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& normal = saved[0];
    const at::Tensor weight = saved[2].to(c10::kFloat);
    const at::Tensor gradient = gradients[0].to(c10::kFloat);
    const auto width = normal.size(-1);
    const at::Tensor product = at::mul(gradient, normal).view({-1, width});
    const at::Tensor for_weight = product.sum(0);
    // The gradient of x has no component along x, because scaling x does not change the result.
    const at::Tensor along =
        at::mv(product, weight).div_(static_cast<double>(width)).view(saved[1].sizes());
    at::Tensor for_x = at::mul(gradient, weight).addcmul_(normal, along, -1).mul_(saved[1]);
    return {for_x.to(static_cast<c10::ScalarType>(context->saved_data["dtype"].toInt())),
            for_weight.to(saved[2].scalar_type()), at::Tensor()};
  }
};

class SwiGlu : public Function<SwiGlu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    const auto inner = gate_up.size(-1) / 2;
    at::Tensor active = at::silu(gate_up.narrow(-1, 0, inner));
    at::Tensor result = at::mul(active, gate_up.narrow(-1, inner, inner));
    context->save_for_backward({gate_up, active});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& gate_up = saved[0];
    const auto inner = gate_up.size(-1) / 2;
    at::Tensor result = at::empty_like(gate_up);
    at::Tensor for_gate = result.narrow(-1, 0, inner);
    at::Tensor for_up = result.narrow(-1, inner, inner);
    at::mul_out(for_up, gradients[0], saved[1]);
    const at::Tensor passed = at::mul(gradients[0], gate_up.narrow(-1, inner, inner));
    at::silu_backward_out(for_gate, passed, gate_up.narrow(-1, 0, inner));
    return {result};
  }
};

/// Rotates pairs (i, i + half) of the first 2 * half elements of each head of `in` [batch, time,
/// heads, head_dim] by +sin or -sin into `out` and copies the other elements. The tables have
/// `half` columns.
void rotate_into(at::Tensor& out, const at::Tensor& in, const at::Tensor& cos,
                 const at::Tensor& sin, double sign) {
  const auto half = cos.size(-1);
  const auto rest = in.size(-1) - 2 * half;
  if (rest > 0) out.narrow(-1, 2 * half, rest).copy_(in.narrow(-1, 2 * half, rest));
  const at::Tensor first = in.narrow(-1, 0, half);
  const at::Tensor second = in.narrow(-1, half, half);
  at::Tensor out_first = out.narrow(-1, 0, half);
  at::Tensor out_second = out.narrow(-1, half, half);
  at::mul_out(out_first, first, cos).addcmul_(second, sin, -sign);
  at::mul_out(out_second, second, cos).addcmul_(first, sin, sign);
}

class RotarySplit : public Function<RotarySplit> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv,
                               const at::Tensor& cos, const at::Tensor& sin, std::int64_t heads,
                               std::int64_t kv_heads) {
    const auto all = heads + 2 * kv_heads;
    const auto width = qkv.size(-1) / all;
    const at::Tensor in = qkv.view({qkv.size(0), qkv.size(1), all, width});
    const at::Tensor c = cos.to(qkv.scalar_type()).unsqueeze(-2);
    const at::Tensor s = sin.to(qkv.scalar_type()).unsqueeze(-2);
    at::Tensor rotated =
        at::empty_like(in.narrow(2, 0, heads + kv_heads), at::MemoryFormat::Contiguous);
    rotate_into(rotated, in.narrow(2, 0, heads + kv_heads), c, s, 1.0);
    context->save_for_backward({c, s});
    context->saved_data["heads"] = heads;
    context->saved_data["kv_heads"] = kv_heads;
    // Copy the tensor: an output that is a view of an input would need autograd's view tracking.
    return {rotated.narrow(2, 0, heads).transpose(1, 2),
            rotated.narrow(2, heads, kv_heads).transpose(1, 2),
            in.narrow(2, heads + kv_heads, kv_heads)
                .clone(at::MemoryFormat::Contiguous)
                .transpose(1, 2)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto heads = context->saved_data["heads"].toInt();
    const auto kv_heads = context->saved_data["kv_heads"].toInt();
    const at::Tensor query = gradients[0].transpose(1, 2);
    at::Tensor result = at::empty(
        {query.size(0), query.size(1), heads + 2 * kv_heads, query.size(3)}, query.options());
    at::Tensor for_query = result.narrow(2, 0, heads);
    at::Tensor for_key = result.narrow(2, heads, kv_heads);
    rotate_into(for_query, query, saved[0], saved[1], -1.0);
    rotate_into(for_key, gradients[1].transpose(1, 2), saved[0], saved[1], -1.0);
    result.narrow(2, heads + kv_heads, kv_heads).copy_(gradients[2].transpose(1, 2));
    return {result.view({query.size(0), query.size(1), -1}), at::Tensor(), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool trains_by_op(const at::Tensor& x) {
  return c10::GradMode::is_enabled() && x.requires_grad() && ops::has_training_kernels(x);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (x.scalar_type() == weight.scalar_type() && trains_by_op(x))
    return ops::rms_norm(x, weight, eps);
  return RmsNorm::apply(x, weight, eps);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  if (trains_by_op(gate_up)) return ops::gated_activation(gate_up, ops::GateActivation::silu);
  return SwiGlu::apply(gate_up);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> rotary_split(const at::Tensor& qkv,
                                                            const at::Tensor& cos,
                                                            const at::Tensor& sin,
                                                            std::int64_t heads,
                                                            std::int64_t kv_heads) {
  if (trains_by_op(qkv)) {
    const auto table = qkv.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
    return ops::rotary_split(qkv, cos.to(table), sin.to(table), heads, kv_heads);
  }
  auto parts = RotarySplit::apply(qkv, cos, sin, heads, kv_heads);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace anyaccel::llm
