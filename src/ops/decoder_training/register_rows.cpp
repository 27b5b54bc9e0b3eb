// Registers torch.ops.anyaccel.training_{rms_norm, add_rms_norm, gated_activation, rotary_split}:
// schemas, meta kernels and autograd. Each public op has an op for its forward pass and one for its
// backward pass.
#include "ops/decoder_training/autograd.h"

namespace anyaccel::ops {
namespace {

using NormForward = Three(const Tensor&, const OptionalTensor&, const Tensor&, double, bool);
using NormBackward = Two(const OptionalTensor&, const OptionalTensor&, const Tensor&, const Tensor&,
                         const Tensor&, bool, bool);

const auto& norm_forward_op() {
  static const auto op = find<NormForward>("anyaccel::_training_rms_norm_forward");
  return op;
}

class Norm : public Function<Norm> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x,
                               const OptionalTensor& residual, const Tensor& weight, double eps,
                               bool plus_one) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    auto [out, sum, rstd] = norm_forward_op().call(x, residual, weight, eps, plus_one);
    const bool adds = is_given(residual);
    context->save_for_backward({adds ? sum : x, weight, rstd});
    context->saved_data["plus_one"] = plus_one;
    context->saved_data["weight"] = adds ? 2 : 1;
    return adds ? variable_list{out, sum} : variable_list{out};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = find<NormBackward>("anyaccel::_training_rms_norm_backward");
    const auto saved = context->get_saved_variables();
    // Omitted tensors have no index.
    const auto weight = static_cast<std::size_t>(context->saved_data["weight"].toInt());
    const bool weight_grad = context->needs_input_grad(weight);
    const auto [to, to_weight] = op.call(
        or_nullopt(grads[0]), grads.size() > 1 ? or_nullopt(grads[1]) : std::nullopt, saved[0],
        saved[1], saved[2], context->saved_data["plus_one"].toBool(), weight_grad);
    return {context->needs_input_grad(0) ? to : Tensor(),
            weight == 2 && context->needs_input_grad(1) ? to : Tensor(),
            weight_grad ? to_weight : Tensor(), Tensor(), Tensor()};
  }
};

Tensor norm(const Tensor& x, const Tensor& weight, double eps, bool plus_one) {
  return std::get<0>(norm_forward_op().call(x, std::nullopt, weight, eps, plus_one));
}
Tensor norm_autograd(const Tensor& x, const Tensor& weight, double eps, bool plus_one) {
  return Norm::apply(x, OptionalTensor(), weight, eps, plus_one)[0];
}
Two add_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
             bool plus_one) {
  const auto [out, sum, rstd] = norm_forward_op().call(x, residual, weight, eps, plus_one);
  return {out, sum};
}
Two add_norm_autograd(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
                      bool plus_one) {
  const auto results = Norm::apply(x, OptionalTensor(residual), weight, eps, plus_one);
  return {results[0], results[1]};
}

Three norm_forward_meta(const Tensor& x, const OptionalTensor& residual, const Tensor& /*weight*/,
                        double /*eps*/, bool /*plus_one*/) {
  c10::SymInt rows = 1;
  for (std::int64_t i = 0; i + 1 < x.dim(); ++i) rows = rows * x.sym_size(i);
  return {like(x), is_given(residual) ? like(x) : nothing_like(x),
          at::empty_symint({rows}, x.options().dtype(real_type(x.scalar_type())))};
}
Two norm_backward_meta(const OptionalTensor& /*grad_out*/, const OptionalTensor& /*grad_sum*/,
                       const Tensor& sum, const Tensor& weight, const Tensor& /*rstd*/,
                       bool /*plus_one*/, bool weight_grad) {
  return {like(sum), weight_grad ? like(weight) : nothing_like(sum)};
}

using GatedForward = Tensor(const Tensor&, Int);
using GatedBackward = Tensor(const Tensor&, const Tensor&, Int);

const auto& gated_forward_op() {
  static const auto op = find<GatedForward>("anyaccel::_training_gated_activation_forward");
  return op;
}

class Gated : public Function<Gated> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gate_up, Int activation) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate_up});
    context->saved_data["activation"] = activation;
    return gated_forward_op().call(gate_up, activation);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = find<GatedBackward>("anyaccel::_training_gated_activation_backward");
    return {op.call(grads[0], context->get_saved_variables()[0],
                    context->saved_data["activation"].toInt()),
            Tensor()};
  }
};

Tensor gated(const Tensor& gate_up, Int activation) {
  return gated_forward_op().call(gate_up, activation);
}
Tensor gated_autograd(const Tensor& gate_up, Int activation) {
  return Gated::apply(gate_up, activation);
}
Tensor gated_forward_meta(const Tensor& gate_up, Int /*activation*/) {
  auto sizes = gate_up.sym_sizes().vec();
  sizes.back() = sizes.back() / 2;
  return at::empty_symint(sizes, gate_up.options());
}
Tensor gated_backward_meta(const Tensor& /*grad_out*/, const Tensor& gate_up, Int /*activation*/) {
  return like(gate_up);
}

using RotaryForward = Three(const Tensor&, const Tensor&, const Tensor&, Int, Int);
using RotaryBackward = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&);

const auto& rotary_forward_op() {
  static const auto op = find<RotaryForward>("anyaccel::_training_rotary_split_forward");
  return op;
}

class Rotary : public Function<Rotary> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& qkv, const Tensor& cos,
                               const Tensor& sin, Int heads, Int kv_heads) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({cos, sin});
    auto [q, k, v] = rotary_forward_op().call(qkv, cos, sin, heads, kv_heads);
    return {q, k, v};
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = find<RotaryBackward>("anyaccel::_training_rotary_split_backward");
    const auto saved = context->get_saved_variables();
    return {op.call(grads[0], grads[1], grads[2], saved[0], saved[1]), Tensor(), Tensor(), Tensor(),
            Tensor()};
  }
};

Three rotary(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Int heads, Int kv_heads) {
  return rotary_forward_op().call(qkv, cos, sin, heads, kv_heads);
}
Three rotary_autograd(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Int heads,
                      Int kv_heads) {
  for (const Tensor* table : {&cos, &sin})
    if (table->requires_grad() && c10::GradMode::is_enabled())
      fail_argument("training_rotary_split", "a table requires a gradient", table->toString(),
                    "tables without requires_grad", "call detach()");
  const auto results = Rotary::apply(qkv, cos, sin, heads, kv_heads);
  return {results[0], results[1], results[2]};
}
Three rotary_forward_meta(const Tensor& qkv, const Tensor& /*cos*/, const Tensor& /*sin*/,
                          Int heads, Int kv_heads) {
  const auto make = [&](Int count) {
    return at::empty_symint(
               {qkv.sym_size(0), qkv.sym_size(1), count, qkv.sym_size(2) / (heads + 2 * kv_heads)},
               qkv.options())
        .transpose(1, 2);
  };
  return {make(heads), make(kv_heads), make(kv_heads)};
}
Tensor rotary_backward_meta(const Tensor& q, const Tensor& k, const Tensor& /*v*/,
                            const Tensor& /*cos*/, const Tensor& /*sin*/) {
  return at::empty_symint(
      {q.sym_size(0), q.sym_size(2), (q.sym_size(1) + k.sym_size(1) * 2) * q.sym_size(3)},
      q.options());
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "training_rms_norm(Tensor x, Tensor weight, float eps=1e-6, bool plus_one=False) -> Tensor");
  m.def(
      "training_add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps=1e-6, bool "
      "plus_one=False) -> (Tensor, Tensor)");
  m.def(
      "_training_rms_norm_forward(Tensor x, Tensor? residual, Tensor weight, float eps, bool "
      "plus_one) -> (Tensor, Tensor, Tensor)");
  m.def(
      "_training_rms_norm_backward(Tensor? grad_out, Tensor? grad_sum, Tensor sum, Tensor weight, "
      "Tensor rstd, bool plus_one, bool weight_grad) -> (Tensor, Tensor)");
  m.def("training_gated_activation(Tensor gate_up, int activation=0) -> Tensor");
  m.def("_training_gated_activation_forward(Tensor gate_up, int activation) -> Tensor");
  m.def(
      "_training_gated_activation_backward(Tensor grad_out, Tensor gate_up, int activation) -> "
      "Tensor");
  m.def(
      "training_rotary_split(Tensor qkv, Tensor cos, Tensor sin, int heads, int kv_heads) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "_training_rotary_split_forward(Tensor qkv, Tensor cos, Tensor sin, int heads, int kv_heads) "
      "-> (Tensor, Tensor, Tensor)");
  m.def(
      "_training_rotary_split_backward(Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor cos, "
      "Tensor sin) -> Tensor");
}

// The public ops only call the forward ops, so they are the same on every device.
TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("training_rms_norm", norm);
  m.impl("training_add_rms_norm", add_norm);
  m.impl("training_gated_activation", gated);
  m.impl("training_rotary_split", rotary);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("_training_rms_norm_forward", rms_norm_forward);
  m.impl("_training_rms_norm_backward", rms_norm_backward);
  m.impl("_training_gated_activation_forward", gated_forward);
  m.impl("_training_gated_activation_backward", gated_backward);
  m.impl("_training_rotary_split_forward", rotary_forward);
  m.impl("_training_rotary_split_backward", rotary_backward);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("_training_rms_norm_forward", norm_forward_meta);
  m.impl("_training_rms_norm_backward", norm_backward_meta);
  m.impl("_training_gated_activation_forward", gated_forward_meta);
  m.impl("_training_gated_activation_backward", gated_backward_meta);
  m.impl("_training_rotary_split_forward", rotary_forward_meta);
  m.impl("_training_rotary_split_backward", rotary_backward_meta);
}

TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("training_rms_norm", norm_autograd);
  m.impl("training_add_rms_norm", add_norm_autograd);
  m.impl("training_gated_activation", gated_autograd);
  m.impl("training_rotary_split", rotary_autograd);
  for (const char* name :
       {"_training_rms_norm_forward", "_training_rms_norm_backward",
        "_training_gated_activation_forward", "_training_gated_activation_backward",
        "_training_rotary_split_forward", "_training_rotary_split_backward"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

}  // namespace
}  // namespace anyaccel::ops
