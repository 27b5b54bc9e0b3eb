// Registers torch.ops.anyaccel.training_{attention, linear, gated_linear, linear_cross_entropy}:
// schemas, meta kernels and autograd.
#include "ATen/ops/linear.h"
#include "ops/decoder_training/autograd.h"

namespace anyaccel::ops {
namespace {

using AttentionForward = Two(const Tensor&, const Tensor&, const Tensor&, double, Int,
                             const OptionalTensor&);
using AttentionBackward = Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                                Int, const OptionalTensor&, const Tensor&, const Tensor&);

const auto& attention_forward_op() {
  static const auto op = find<AttentionForward>("anyaccel::_training_attention_forward");
  return op;
}

class Attention : public Function<Attention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        double scale, Int window, const OptionalTensor& starts) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [out, stats] = attention_forward_op().call(q, k, v, scale, window, starts);
    context->save_for_backward({q, k, v, is_given(starts) ? *starts : Tensor(), out, stats});
    context->saved_data["scale"] = scale;
    context->saved_data["window"] = window;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = find<AttentionBackward>("anyaccel::_training_attention_backward");
    const auto saved = context->get_saved_variables();
    const auto [q, k, v] =
        op.call(grads[0], saved[0], saved[1], saved[2], context->saved_data["scale"].toDouble(),
                context->saved_data["window"].toInt(), or_nullopt(saved[3]), saved[4], saved[5]);
    return {q, k, v, Tensor(), Tensor(), Tensor()};
  }
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, Int window,
                 const OptionalTensor& starts) {
  return std::get<0>(attention_forward_op().call(q, k, v, scale, window, starts));
}
Tensor attention_autograd(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                          Int window, const OptionalTensor& starts) {
  return Attention::apply(q, k, v, scale, window, starts);
}
Tensor heads_like(const Tensor& q) {
  return at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1), q.sym_size(3)}, q.options())
      .transpose(1, 2);
}
Two attention_forward_meta(const Tensor& q, const Tensor& /*k*/, const Tensor& /*v*/,
                           double /*scale*/, Int /*window*/, const OptionalTensor& /*starts*/) {
  return {heads_like(q), at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2), 2},
                                          q.options().dtype(real_type(q.scalar_type())))};
}
Three attention_backward_meta(const Tensor& /*grad_out*/, const Tensor& q, const Tensor& k,
                              const Tensor& v, double /*scale*/, Int /*window*/,
                              const OptionalTensor& /*starts*/, const Tensor& /*out*/,
                              const Tensor& /*stats*/) {
  return {heads_like(q), heads_like(k), heads_like(v)};
}

using LinearForward = Tensor(const Tensor&, const Tensor&, const OptionalTensor&);
using LinearBackward = Three(const Tensor&, const Tensor&, const Tensor&, bool, bool, bool);

const auto& linear_forward_op() {
  static const auto op = find<LinearForward>("anyaccel::_training_linear_forward");
  return op;
}

class Linear : public Function<Linear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = is_given(bias);
    return linear_forward_op().call(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = find<LinearBackward>("anyaccel::_training_linear_backward");
    const auto saved = context->get_saved_variables();
    const bool x_grad = context->needs_input_grad(0), weight_grad = context->needs_input_grad(1);
    // An omitted tensor has no index.
    const bool bias_grad = context->saved_data["bias"].toBool() && context->needs_input_grad(2);
    const auto [x, weight, bias] =
        op.call(grads[0], saved[0], saved[1], x_grad, weight_grad, bias_grad);
    return {x_grad ? x : Tensor(), weight_grad ? weight : Tensor(), bias_grad ? bias : Tensor()};
  }
};

/// Returns whether torch has only slow matrix products for this tensor.
bool is_slow(const Tensor& x) {
  return (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf) && x.is_cpu() &&
         !multiplies_fast(x.scalar_type());
}
Tensor linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
  return is_slow(x) ? linear_forward_op().call(x, weight, bias) : at::linear(x, weight, bias);
}
Tensor linear_autograd(const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
  return is_slow(x) ? Linear::apply(x, weight, bias) : at::linear(x, weight, bias);
}
Tensor linear_forward_meta(const Tensor& x, const Tensor& weight, const OptionalTensor& /*bias*/) {
  auto sizes = x.sym_sizes().vec();
  sizes.back() = weight.sym_size(0);
  return at::empty_symint(sizes, x.options());
}
Three linear_backward_meta(const Tensor& /*grad_out*/, const Tensor& x, const Tensor& weight,
                           bool x_grad, bool weight_grad, bool bias_grad) {
  return {x_grad ? like(x) : nothing_like(x), weight_grad ? like(weight) : nothing_like(x),
          bias_grad ? at::empty_symint({weight.sym_size(0)}, x.options()) : nothing_like(x)};
}

using GatedForward = Tensor(const Tensor&, Int);
using GatedBackward = Tensor(const Tensor&, const Tensor&, Int);

const auto& activation_op() {
  static const auto op = find<GatedForward>("anyaccel::_training_gated_activation_forward");
  return op;
}

/// A gated activation and a linear layer. Saves only the input of the activation.
class GatedLinear : public Function<GatedLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gate_up, Int activation,
                        const Tensor& weight, const OptionalTensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate_up, weight});
    context->saved_data["activation"] = activation;
    context->saved_data["bias"] = is_given(bias);
    return ops::linear(activation_op().call(gate_up, activation), weight, bias);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto activation_backward =
        find<GatedBackward>("anyaccel::_training_gated_activation_backward");
    static const auto linear_backward = find<LinearBackward>("anyaccel::_training_linear_backward");
    const auto saved = context->get_saved_variables();
    const Int activation = context->saved_data["activation"].toInt();
    const bool x_grad = context->needs_input_grad(0), weight_grad = context->needs_input_grad(1);
    // An omitted tensor has no index.
    const bool bias_grad = context->saved_data["bias"].toBool() && context->needs_input_grad(2);
    const Tensor inner = activation_op().call(saved[0], activation);
    Tensor to_inner, to_weight, to_bias;
    if (is_slow(inner)) {
      std::tie(to_inner, to_weight, to_bias) =
          linear_backward.call(grads[0], inner, saved[1], x_grad, weight_grad, bias_grad);
    } else {
      const Tensor grad = grads[0].reshape({-1, saved[1].size(0)});
      if (x_grad) to_inner = grad.mm(saved[1]).view(inner.sizes());
      if (weight_grad) to_weight = grad.t().mm(inner.view({-1, saved[1].size(1)}));
      if (bias_grad) to_bias = grad.sum(0);
    }
    return {x_grad ? activation_backward.call(to_inner, saved[0], activation) : Tensor(), Tensor(),
            weight_grad ? to_weight : Tensor(), bias_grad ? to_bias : Tensor()};
  }
};

Tensor gated_linear(const Tensor& gate_up, Int activation, const Tensor& weight,
                    const OptionalTensor& bias) {
  return ops::linear(activation_op().call(gate_up, activation), weight, bias);
}
Tensor gated_linear_autograd(const Tensor& gate_up, Int activation, const Tensor& weight,
                             const OptionalTensor& bias) {
  return GatedLinear::apply(gate_up, activation, weight, bias);
}

using LossForward = Three(const Tensor&, const Tensor&, const Tensor&, Int, double, double, bool,
                          bool);

const auto& loss_forward_op() {
  static const auto op = find<LossForward>("anyaccel::_training_linear_cross_entropy_forward");
  return op;
}

/// Multiplies a gradient that was computed for a factor of 1.
Tensor times(const Tensor& gradient, const Tensor& factor) {
  // Avoid a pass over the gradient of a large vocabulary's matrix.
  if (factor.is_cpu() && factor.item<double>() == 1) return gradient;
  // Keep the factor in its dtype: rounding it to 16 bits would scale all gradients by the error.
  return gradient.mul(factor);
}

class Loss : public Function<Loss> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const Tensor& labels, Int ignore_index, double divisor, double softcap,
                        bool hidden_grad, bool weight_grad) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [loss, to_hidden, to_weight] = loss_forward_op().call(
        hidden, weight, labels, ignore_index, divisor, softcap, hidden_grad, weight_grad);
    context->save_for_backward(
        {hidden_grad ? to_hidden : Tensor(), weight_grad ? to_weight : Tensor()});
    return loss;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    variable_list results(8);
    for (std::size_t i = 0; i < 2; ++i)
      if (saved[i].defined()) results[i] = times(saved[i], grads[0]);
    return results;
  }
};

Tensor loss(const Tensor& hidden, const Tensor& weight, const Tensor& labels, Int ignore_index,
            double divisor, double softcap) {
  return std::get<0>(
      loss_forward_op().call(hidden, weight, labels, ignore_index, divisor, softcap, false, false));
}
Tensor loss_autograd(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                     Int ignore_index, double divisor, double softcap) {
  const bool enabled = c10::GradMode::is_enabled();
  return Loss::apply(hidden, weight, labels, ignore_index, divisor, softcap,
                     enabled && hidden.requires_grad(), enabled && weight.requires_grad());
}
Three loss_forward_meta(const Tensor& hidden, const Tensor& weight, const Tensor& /*labels*/,
                        Int /*ignore_index*/, double /*divisor*/, double /*softcap*/,
                        bool hidden_grad, bool weight_grad) {
  return {at::empty({}, hidden.options().dtype(real_type(hidden.scalar_type()))),
          hidden_grad ? like(hidden) : nothing_like(hidden),
          weight_grad ? like(weight) : nothing_like(hidden)};
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "training_attention(Tensor q, Tensor k, Tensor v, float scale, int window=0, Tensor? "
      "starts=None) -> Tensor");
  m.def(
      "_training_attention_forward(Tensor q, Tensor k, Tensor v, float scale, int window, Tensor? "
      "starts) -> (Tensor, Tensor)");
  m.def(
      "_training_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, float scale, "
      "int window, Tensor? starts, Tensor out, Tensor stats) -> (Tensor, Tensor, Tensor)");
  m.def("training_linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor");
  m.def(
      "training_gated_linear(Tensor gate_up, int activation, Tensor weight, Tensor? bias=None) -> "
      "Tensor");
  m.def("_training_linear_forward(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
  m.def(
      "_training_linear_backward(Tensor grad_out, Tensor x, Tensor weight, bool x_grad, bool "
      "weight_grad, bool bias_grad) -> (Tensor, Tensor, Tensor)");
  m.def(
      "training_linear_cross_entropy(Tensor hidden, Tensor weight, Tensor labels, int "
      "ignore_index=-100, float divisor=0.0, float softcap=0.0) -> Tensor");
  m.def(
      "_training_linear_cross_entropy_forward(Tensor hidden, Tensor weight, Tensor labels, int "
      "ignore_index, float divisor, float softcap, bool hidden_grad, bool weight_grad) -> (Tensor, "
      "Tensor, Tensor)");
}

// The public ops only call the forward ops, so they are the same on every device.
TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("training_attention", attention);
  m.impl("training_linear", linear);
  m.impl("training_gated_linear", gated_linear);
  m.impl("training_linear_cross_entropy", loss);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("_training_attention_forward", attention_forward);
  m.impl("_training_attention_backward", attention_backward);
  m.impl("_training_linear_forward", wide_linear_forward);
  m.impl("_training_linear_backward", wide_linear_backward);
  m.impl("_training_linear_cross_entropy_forward", cross_entropy_forward);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("_training_attention_forward", attention_forward_meta);
  m.impl("_training_attention_backward", attention_backward_meta);
  m.impl("_training_linear_forward", linear_forward_meta);
  m.impl("_training_linear_backward", linear_backward_meta);
  m.impl("_training_linear_cross_entropy_forward", loss_forward_meta);
}

TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("training_attention", attention_autograd);
  m.impl("training_linear", linear_autograd);
  m.impl("training_gated_linear", gated_linear_autograd);
  m.impl("training_linear_cross_entropy", loss_autograd);
  for (const char* name :
       {"_training_attention_forward", "_training_attention_backward", "_training_linear_forward",
        "_training_linear_backward", "_training_linear_cross_entropy_forward"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

}  // namespace
}  // namespace anyaccel::ops
