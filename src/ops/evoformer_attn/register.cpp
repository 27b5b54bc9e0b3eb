// Registers torch.ops.anyaccel.evoformer_attention: schemas, meta kernels and autograd.
#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"
#include "ops/evoformer_attn/arguments.h"
#include "torch/csrc/autograd/autograd_not_implemented_fallback.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

#define GIVEN                                                                     \
  const Tensor &q, const Tensor &k, const Tensor &v, const OptionalTensor &bias1, \
      const OptionalTensor &bias2, std::optional<double> scale
#define PASSED q, k, v, bias1, bias2, scale
#define BACKWARD                                                                            \
  const Tensor &grad, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &out, \
      const Tensor &lse, const OptionalTensor &bias1, const OptionalTensor &bias2,          \
      std::optional<double> scale
#define BACKWARD_INTO                                                                           \
  BACKWARD, const Tensor &dq, const Tensor &dk, const Tensor &dv, const OptionalTensor &dbias1, \
      const OptionalTensor &dbias2
#define BACKWARD_PASSED grad, q, k, v, out, lse, bias1, bias2, scale

using Results = std::tuple<Tensor, Tensor>;
using Grads = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

void call_into(GIVEN, const Tensor& out, const Tensor& lse) {
  static const auto op =
      find<void(GIVEN, const Tensor&, const Tensor&)>("anyaccel::_evoformer_attention_into");
  op.call(PASSED, out, lse);
}

void call_backward_into(BACKWARD_INTO) {
  static const auto op = find<void(BACKWARD_INTO)>("anyaccel::_evoformer_attention_backward_into");
  op.call(BACKWARD_PASSED, dq, dk, dv, dbias1, dbias2);
}

Tensor contiguous_like(const Tensor& tensor) {
  return at::empty_symint(tensor.sym_sizes(), tensor.options());
}

Results forward(GIVEN) {
  check_kinds({PASSED});
  c10::SymInt entries = 1;
  for (std::int64_t dim = 0; dim < q.dim() - 3; ++dim) entries *= q.sym_size(dim);
  const Tensor out = contiguous_like(q);
  const Tensor lse =
      at::empty_symint({entries, q.sym_size(-2), q.sym_size(-3)}, q.options().dtype(real_type(q)));
  call_into(PASSED, out, lse);
  return {out, lse};
}

void forward_into_meta(GIVEN, const Tensor&, const Tensor&) { check_kinds({PASSED}); }

Grads backward(BACKWARD, bool bias1_grad, bool bias2_grad) {
  check_kinds({q, k, v, bias1, bias2, scale});
  const auto zeros = [&](bool wanted, const OptionalTensor& bias) -> OptionalTensor {
    if (!wanted || !is_given(bias)) return std::nullopt;
    return at::zeros_symint(bias->sym_sizes(), bias->options().dtype(real_type(q)));
  };
  const Tensor dq = contiguous_like(q), dk = contiguous_like(k), dv = contiguous_like(v);
  const OptionalTensor dbias1 = zeros(bias1_grad, bias1), dbias2 = zeros(bias2_grad, bias2);
  call_backward_into(BACKWARD_PASSED, dq, dk, dv, dbias1, dbias2);
  const auto narrow = [&](const OptionalTensor& wide) {
    return is_given(wide) ? wide->to(q.scalar_type()) : at::empty({0}, q.options());
  };
  return {dq, dk, dv, narrow(dbias1), narrow(dbias2)};
}

void backward_into_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor&, const Tensor&, const OptionalTensor& bias1,
                        const OptionalTensor& bias2, std::optional<double> scale, const Tensor&,
                        const Tensor&, const Tensor&, const OptionalTensor&,
                        const OptionalTensor&) {
  check_kinds({PASSED});
}

Results call_forward(GIVEN) {
  static const auto op = find<Results(GIVEN)>("anyaccel::_evoformer_attention_forward");
  return op.call(PASSED);
}

Tensor attention(GIVEN) { return std::get<0>(call_forward(PASSED)); }

class Attention : public torch::autograd::Function<Attention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, GIVEN) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto wants = [](const OptionalTensor& bias) {
      return is_given(bias) && bias->requires_grad();
    };
    context->saved_data["bias1_grad"] = wants(bias1);
    context->saved_data["bias2_grad"] = wants(bias2);
    context->saved_data["scale"] = scale;
    const auto or_none = [](const OptionalTensor& tensor) {
      return is_given(tensor) ? *tensor : Tensor();
    };
    auto [out, lse] = call_forward(PASSED);
    context->save_for_backward({q, k, v, out, lse, or_none(bias1), or_none(bias2)});
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    static const auto op =
        find<Grads(BACKWARD, bool, bool)>("anyaccel::_evoformer_attention_backward");
    const auto saved = context->get_saved_variables();
    const auto& data = context->saved_data;
    const auto optional = [](const Tensor& tensor) {
      return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
    };
    const bool bias1_grad = data.at("bias1_grad").toBool(),
               bias2_grad = data.at("bias2_grad").toBool();
    const auto [dq, dk, dv, dbias1, dbias2] =
        op.call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], optional(saved[5]),
                optional(saved[6]), data.at("scale").toOptional<double>(), bias1_grad, bias2_grad);
    return {dq, dk, dv, bias1_grad ? dbias1 : Tensor(), bias2_grad ? dbias2 : Tensor(), Tensor()};
  }
};

Tensor attention_autograd(GIVEN) { return Attention::apply(PASSED); }

/// Rejects tensors that require gradients, because ops that write into their arguments are not
/// differentiable.
void check_no_gradients(std::initializer_list<const Tensor*> tensors) {
  if (!c10::GradMode::is_enabled()) return;
  for (const Tensor* tensor : tensors)
    if (tensor->defined() && tensor->requires_grad())
      fail_argument(evoformer_where,
                    "a tensor requires a gradient, but results are written in place",
                    "a tensor with requires_grad", "tensors without requires_grad",
                    "use evoformer_attention, or torch.no_grad()");
}

/// Bumps the version of a modified tensor. The kernel cannot do this if the device falls back to
/// the CPU, because it then sees only a copy of the tensor.
void count_change(const Tensor& tensor) {
  if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

void forward_into_autograd(GIVEN, const Tensor& out, const Tensor& lse) {
  const Tensor one = bias1.value_or(Tensor()), two = bias2.value_or(Tensor());
  check_no_gradients({&q, &k, &v, &one, &two, &out, &lse});
  const at::AutoDispatchBelowADInplaceOrView below;
  call_into(PASSED, out, lse);
  for (const Tensor* tensor : {&out, &lse}) count_change(*tensor);
}

void backward_into_autograd(BACKWARD_INTO) {
  const Tensor one = dbias1.value_or(Tensor()), two = dbias2.value_or(Tensor());
  check_no_gradients({&grad, &q, &k, &v, &dq, &dk, &dv, &one, &two});
  const at::AutoDispatchBelowADInplaceOrView below;
  call_backward_into(BACKWARD_PASSED, dq, dk, dv, dbias1, dbias2);
  for (const Tensor* tensor : {&dq, &dk, &dv, &one, &two}) count_change(*tensor);
}

#define ARGUMENTS \
  "Tensor q, Tensor k, Tensor v, Tensor? bias1=None, Tensor? bias2=None, float? scale=None"
#define BACKWARD_ARGUMENTS                                                                     \
  "Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? bias1, Tensor? " \
  "bias2, float? scale"

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("evoformer_attention(" ARGUMENTS ") -> Tensor");
  m.def("_evoformer_attention_forward(" ARGUMENTS ") -> (Tensor, Tensor)");
  m.def(
      "_evoformer_attention_into(Tensor q, Tensor k, Tensor v, Tensor? bias1, Tensor? bias2, "
      "float? scale, "
      "Tensor(a!) out, Tensor(b!) lse) -> ()");
  m.def("_evoformer_attention_backward(" BACKWARD_ARGUMENTS
        ", bool bias1_grad, bool bias2_grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("_evoformer_attention_backward_into(" BACKWARD_ARGUMENTS
        ", Tensor(a!) dq, Tensor(b!) dk, Tensor(c!) dv, Tensor(d!)? dbias1, Tensor(e!)? dbias2) -> "
        "()");
}

TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("evoformer_attention", attention);
  m.impl("_evoformer_attention_forward", forward);
  m.impl("_evoformer_attention_backward", backward);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("_evoformer_attention_into", forward_into_meta);
  m.impl("_evoformer_attention_backward_into", backward_into_meta);
}

TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("evoformer_attention", attention_autograd);
  m.impl("_evoformer_attention_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("_evoformer_attention_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("_evoformer_attention_into", forward_into_autograd);
  m.impl("_evoformer_attention_backward_into", backward_into_autograd);
}

}  // namespace
}  // namespace anyaccel::ops
