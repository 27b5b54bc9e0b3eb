// Registers torch.ops.anyaccel.{nhwc_bias_add, nhwc_bias_add_add, nhwc_bias_add_bias_add}: CPU
// kernels, meta kernels and autograd.
#include <vector>

#include "ATen/ops/empty.h"
#include "kernels/spatial/bias_add.h"
#include "ops/shared/parallel.h"
#include "ops/spatial_inference/arguments.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

#define GIVEN                                                                \
  const Tensor &activation, const Tensor &bias, const OptionalTensor &other, \
      const OptionalTensor &other_bias
#define PASSED activation, bias, other, other_bias

constexpr std::int64_t grain = 32768;

template <typename Real, typename Repeat, typename Add>
void add_all(const BiasTensors& t, const Repeat& repeat, const Add& add) {
  const std::int64_t size = t.activation.numel();
  if (size == 0) return;
  const std::int64_t period = bias_period(t.channels());
  std::vector<Real> bias(static_cast<std::size_t>(period));
  repeat(t.of(t.bias), t.of(t.other_bias), t.channels(), period, bias.data());
  const BiasAdd<Real> arguments{t.of(t.activation), t.of(t.other), t.out.mutable_data_ptr(),
                                bias.data(), period};
  parallel_elements(
      &size, 1, grain,
      [&](std::size_t, std::int64_t begin, std::int64_t end) { add(arguments, begin, end); },
      period);
}

Tensor bias_add_cpu(GIVEN) {
  const BiasArguments g{PASSED};
  check_bias_arguments(g);
  check_on_host("nhwc_bias_add", "the activation", activation);
  const BiasTensors t(g);
  if (activation.scalar_type() == at::kDouble) {
    add_all<double>(
        t,
        [](const void* one, const void* two, std::int64_t channels, std::int64_t period,
           double* to) {
          repeat_bias(static_cast<const double*>(one), static_cast<const double*>(two), channels,
                      period, to);
        },
        [](const BiasAdd<double>& add, std::int64_t begin, std::int64_t end) {
          bias_add(add, begin, end);
        });
    return t.out;
  }
  const Isa isa = best_isa();
  const Element element = element_of("nhwc_bias_add", "the activation", activation);
  add_all<float>(
      t, [&](auto... arguments) { repeat_bias(isa, element, arguments...); },
      [&](const BiasAdd<float>& add, std::int64_t begin, std::int64_t end) {
        bias_add(isa, element, add, begin, end);
      });
  return t.out;
}

Tensor bias_add_meta(GIVEN) {
  check_bias_arguments({PASSED});
  return at::empty_symint(activation.sym_sizes(), activation.options(), channels_last(activation));
}

Tensor call(GIVEN) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("anyaccel::_nhwc_bias_add", "")
                             .typed<Tensor(GIVEN)>();
  return op.call(PASSED);
}

class Add : public torch::autograd::Function<Add> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, GIVEN) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["channel"] = channel_dim(activation);
    context->saved_data["added"] =
        std::int64_t{is_given(other)} + std::int64_t{is_given(other_bias)};
    return call(PASSED);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor& grad = grads[0];
    const std::int64_t channel = context->saved_data["channel"].toInt(),
                       added = context->saved_data["added"].toInt();
    Tensor of_bias;
    if (context->needs_input_grad(1) || (added == 2 && context->needs_input_grad(3))) {
      std::vector<std::int64_t> others;
      for (std::int64_t dim = 0; dim < grad.dim(); ++dim)
        if (dim != channel) others.push_back(dim);
      of_bias = others.empty() ? grad : grad.sum(others);
    }
    return {grad, of_bias, added > 0 ? grad : Tensor(), added > 1 ? of_bias : Tensor()};
  }
};

Tensor bias_add_autograd(GIVEN) { return Add::apply(PASSED); }

Tensor nhwc_bias_add(const Tensor& activation, const Tensor& bias) {
  return call(activation, bias, std::nullopt, std::nullopt);
}

Tensor nhwc_bias_add_add(const Tensor& activation, const Tensor& bias, const Tensor& other) {
  return call(activation, bias, other, std::nullopt);
}

Tensor nhwc_bias_add_bias_add(const Tensor& activation, const Tensor& bias, const Tensor& other,
                              const Tensor& other_bias) {
  return call(activation, bias, other, other_bias);
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "_nhwc_bias_add(Tensor activation, Tensor bias, Tensor? other, Tensor? other_bias) -> "
      "Tensor");
  m.def("nhwc_bias_add(Tensor activation, Tensor bias) -> Tensor", nhwc_bias_add);
  m.def("nhwc_bias_add_add(Tensor activation, Tensor bias, Tensor other) -> Tensor",
        nhwc_bias_add_add);
  m.def(
      "nhwc_bias_add_bias_add(Tensor activation, Tensor bias, Tensor other, Tensor other_bias) -> "
      "Tensor",
      nhwc_bias_add_bias_add);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("_nhwc_bias_add", bias_add_cpu); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("_nhwc_bias_add", bias_add_meta); }
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) { m.impl("_nhwc_bias_add", bias_add_autograd); }

}  // namespace
}  // namespace anyaccel::ops
