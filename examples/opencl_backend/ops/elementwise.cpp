// Ops that compute each element on its own.
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <c10/core/DeviceGuard.h>

#include <cmath>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::Scalar;
using at::Tensor;
using at::TensorIterator;
using at::TensorIteratorConfig;

TensorIterator binary(const Tensor& out, const Tensor& a, const Tensor& b) {
  return TensorIteratorConfig()
      .set_check_mem_overlap(true)
      .add_output(out)
      .add_const_input(a)
      .add_const_input(b)
      .allow_cpu_scalars(true)
      .promote_inputs_to_common_dtype(true)
      .cast_common_dtype_to_outputs(true)
      .enforce_safe_casting_to_output(true)
      .build();
}

TensorIterator unary(const Tensor& out, const Tensor& a) {
  return TensorIteratorConfig()
      .set_check_mem_overlap(true)
      .add_output(out)
      .add_const_input(a)
      .promote_inputs_to_common_dtype(true)
      .cast_common_dtype_to_outputs(true)
      .enforce_safe_casting_to_output(true)
      .build();
}

/// Whether arithmetic on tensors of this kind runs in generated kernels; bool and complex do not.
bool arithmetic(std::initializer_list<Tensor> tensors) {
  for (const auto& tensor : tensors) {
    if (tensor.scalar_type() == at::kBool || type_name(tensor.scalar_type()) == nullptr)
      return false;
    if (tensor.device().type() != kDeviceType && tensor.dim() > 0) return false;
  }
  return true;
}
bool floating(std::initializer_list<Tensor> tensors) {
  for (const auto& tensor : tensors)
    if (!at::isFloatingType(tensor.scalar_type())) return false;
  return arithmetic(tensors);
}

Tensor& add(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  if (arithmetic({a, b, out})) {
    auto iterator = binary(out, a, b);
    if (pointwise("add", "a + p0 * b", iterator, iterator.common_dtype(), {alpha})) return out;
  }
  return host_op<at::_ops::add_out>(a, b, alpha, out);
}

Tensor& subtract(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  if (arithmetic({a, b, out})) {
    auto iterator = binary(out, a, b);
    if (pointwise("sub", "a - p0 * b", iterator, iterator.common_dtype(), {alpha})) return out;
  }
  return host_op<at::_ops::sub_out>(a, b, alpha, out);
}

Tensor& multiply(const Tensor& a, const Tensor& b, Tensor& out) {
  if (arithmetic({a, b, out})) {
    auto iterator = binary(out, a, b);
    if (pointwise("mul", "a * b", iterator, iterator.common_dtype())) return out;
  }
  return host_op<at::_ops::mul_out>(a, b, out);
}

Tensor& divide(const Tensor& a, const Tensor& b, Tensor& out) {
  if (floating({a, b, out})) {
    auto iterator = binary(out, a, b);
    if (pointwise("div", "a / b", iterator, iterator.common_dtype())) return out;
  }
  return host_op<at::_ops::div_out>(a, b, out);
}

/// Op with one input and one expression. The kernel's name is the op's.
#define OCL_UNARY(op, expression)                                                         \
  Tensor& op(const Tensor& a, Tensor& out) {                                              \
    if (floating({a, out})) {                                                             \
      auto iterator = unary(out, a);                                                      \
      if (pointwise("u_" #op, expression, iterator, iterator.common_dtype())) return out; \
    }                                                                                     \
    return host_op<at::_ops::op##_out>(a, out);                                           \
  }
OCL_UNARY(sqrt, "sqrt(a)")
OCL_UNARY(rsqrt, "(C)1 / sqrt(a)")
OCL_UNARY(neg, "-a")
OCL_UNARY(exp, "exp(a)")
OCL_UNARY(expm1, "expm1(a)")
OCL_UNARY(log, "log(a)")
OCL_UNARY(reciprocal, "(C)1 / a")
OCL_UNARY(tanh, "tanh(a)")
OCL_UNARY(sigmoid, "(C)1 / ((C)1 + exp(-a))")
OCL_UNARY(silu, "a / ((C)1 + exp(-a))")
OCL_UNARY(sin, "sin(a)")
OCL_UNARY(cos, "cos(a)")
OCL_UNARY(abs, "fabs(a)")
#undef OCL_UNARY

Tensor& pow(const Tensor& a, const Scalar& exponent, Tensor& out) {
  if (floating({a, out}) && !exponent.isComplex()) {
    auto iterator = unary(out, a);
    const char* expression = exponent.equal(2) ? "a * a" : "pow(a, p0)";
    const char* name = exponent.equal(2) ? "square" : "power";
    if (pointwise(name, expression, iterator, iterator.common_dtype(), {exponent})) return out;
  }
  return host_op<at::_ops::pow_Tensor_Scalar_out>(a, exponent, out);
}

Tensor& silu_backward(const Tensor& gradient, const Tensor& a, Tensor& out) {
  if (floating({gradient, a, out})) {
    auto iterator = binary(out, gradient, a);
    // a is the gradient, b the input
    if (pointwise("silu_backward",
                  "a / ((C)1 + exp(-b)) * ((C)1 + b * ((C)1 - (C)1 / ((C)1 + exp(-b))))", iterator,
                  iterator.common_dtype()))
      return out;
  }
  return host_op<at::_ops::silu_backward_grad_input>(gradient, a, out);
}

Tensor& gelu(const Tensor& a, c10::string_view approximate, Tensor& out) {
  if (floating({a, out})) {
    auto iterator = unary(out, a);
    const bool fast = approximate == "tanh";
    const char* expression =
        fast ? "(C)0.5 * a * ((C)1 + tanh((C)0.7978845608028654 * (a + (C)0.044715 * a * a * a)))"
             : "(C)0.5 * a * ((C)1 + erf(a * (C)0.7071067811865476))";
    if (pointwise(fast ? "gelu_tanh" : "gelu", expression, iterator, iterator.common_dtype()))
      return out;
  }
  return host_op<at::_ops::gelu_out>(a, approximate, out);
}

Tensor& gelu_backward(const Tensor& gradient, const Tensor& a, c10::string_view approximate,
                      Tensor& out) {
  if (floating({gradient, a, out}) && approximate == "none") {
    auto iterator = binary(out, gradient, a);
    if (pointwise("gelu_backward",
                  "a * ((C)0.5 * ((C)1 + erf(b * (C)0.7071067811865476)) + "
                  "b * (C)0.3989422804014327 * exp((C)-0.5 * b * b))",
                  iterator, iterator.common_dtype()))
      return out;
  }
  return host_op<at::_ops::gelu_backward_grad_input>(gradient, a, approximate, out);
}

Tensor& addcmul(const Tensor& self, const Tensor& x, const Tensor& y, const Scalar& value,
                Tensor& out) {
  if (floating({self, x, y, out})) {
    auto iterator = TensorIteratorConfig()
                        .add_output(out)
                        .add_const_input(self)
                        .add_const_input(x)
                        .add_const_input(y)
                        .allow_cpu_scalars(true)
                        .promote_inputs_to_common_dtype(true)
                        .cast_common_dtype_to_outputs(true)
                        .enforce_safe_casting_to_output(true)
                        .build();
    if (pointwise("addcmul", "a + p0 * b * c", iterator, iterator.common_dtype(), {value}))
      return out;
  }
  return host_op<at::_ops::addcmul_out>(self, x, y, value, out);
}

Tensor& addcdiv(const Tensor& self, const Tensor& x, const Tensor& y, const Scalar& value,
                Tensor& out) {
  if (floating({self, x, y, out})) {
    auto iterator = TensorIteratorConfig()
                        .add_output(out)
                        .add_const_input(self)
                        .add_const_input(x)
                        .add_const_input(y)
                        .allow_cpu_scalars(true)
                        .promote_inputs_to_common_dtype(true)
                        .cast_common_dtype_to_outputs(true)
                        .enforce_safe_casting_to_output(true)
                        .build();
    if (pointwise("addcdiv", "a + p0 * b / c", iterator, iterator.common_dtype(), {value}))
      return out;
  }
  return host_op<at::_ops::addcdiv_out>(self, x, y, value, out);
}

Tensor& lerp(const Tensor& start, const Tensor& end, const Scalar& weight, Tensor& out) {
  if (floating({start, end, out}) && !weight.isComplex()) {
    auto iterator = binary(out, start, end);
    // Two forms, as in torch, so that both ends are exact.
    const char* expression =
        std::abs(weight.toDouble()) < 0.5 ? "a + p0 * (b - a)" : "b - (b - a) * ((C)1 - p0)";
    const char* name = std::abs(weight.toDouble()) < 0.5 ? "lerp_low" : "lerp_high";
    if (pointwise(name, expression, iterator, iterator.common_dtype(), {weight})) return out;
  }
  return host_op<at::_ops::lerp_Scalar_out>(start, end, weight, out);
}

Tensor& clamp_max(const Tensor& a, const Scalar& maximum, Tensor& out) {
  if (floating({a, out}) && !maximum.isComplex()) {
    auto iterator = unary(out, a);
    if (pointwise("clamp_max", "a > p0 ? p0 : a", iterator, iterator.common_dtype(), {maximum}))
      return out;
  }
  return host_op<at::_ops::clamp_max_out>(a, maximum, out);
}

Tensor& isneginf(const Tensor& a, Tensor& out) {
  if (floating({a}) && out.scalar_type() == at::kBool) {
    auto iterator = TensorIteratorConfig()
                        .set_check_mem_overlap(true)
                        .check_all_same_dtype(false)
                        .add_output(out)
                        .add_const_input(a)
                        .build();
    if (pointwise("isneginf", "isinf(a) && a < 0", iterator, a.scalar_type())) return out;
  }
  return host_op<at::_ops::isneginf_out>(a, out);
}

Tensor& where_out(const Tensor& condition, const Tensor& x, const Tensor& y, Tensor& out) {
  if (condition.scalar_type() == at::kBool && condition.device().type() == kDeviceType &&
      x.scalar_type() == y.scalar_type() && out.scalar_type() == x.scalar_type() &&
      floating({x, y, out})) {
    auto iterator = TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .allow_cpu_scalars(true)
                        .add_output(out)
                        .add_const_input(condition)
                        .add_const_input(x)
                        .add_const_input(y)
                        .build();
    if (pointwise("where", "a != 0 ? b : c", iterator, out.scalar_type())) return out;
  }
  return host_op<at::_ops::where_self_out>(condition, x, y, out);
}

Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y) {
  const auto type = at::result_type(x, y);
  const auto device = condition.device().type() == kDeviceType ? condition.device() : x.device();
  if (device.type() != kDeviceType) return host_op<at::_ops::where_self>(condition, x, y);
  auto out = at::empty({0}, x.options().dtype(type).device(device));
  const auto typed = [&](const Tensor& t) { return t.scalar_type() == type ? t : t.to(type); };
  return where_out(condition, typed(x), typed(y), out);
}

Tensor& fill(Tensor& self, const Scalar& value) {
  if (type_name(self.scalar_type()) != nullptr && !value.isComplex()) {
    auto iterator = TensorIteratorConfig()
                        .set_check_mem_overlap(false)
                        .check_all_same_dtype(false)
                        .add_output(self)
                        .resize_outputs(false)
                        .build();
    const auto typed = self.scalar_type() == at::kBool ? Scalar(value.to<bool>()) : value;
    if (pointwise("fill", "p0", iterator, self.scalar_type(), {typed})) return self;
  }
  return host_op<at::_ops::fill__Scalar>(self, value);
}

Tensor& zero(Tensor& self) { return fill(self, 0); }

/// Reads one value. Waits for the current stream.
Scalar local_scalar(const Tensor& self) {
  const auto host = at::empty({1}, self.options().device(at::kCPU));
  auto& queue = current_queue(self.device().index());
  check(clEnqueueSVMMemcpy(queue.handle, CL_TRUE, host.mutable_data_ptr(), self.const_data_ptr(),
                           self.itemsize(), 0, nullptr, nullptr),
        "clEnqueueSVMMemcpy");
  check_failure(self.device().index());
  return host.item();
}

}  // namespace

void register_elementwise(torch::Library& library) {
  library.impl("add.out", TORCH_FN(add));
  library.impl("sub.out", TORCH_FN(subtract));
  library.impl("mul.out", TORCH_FN(multiply));
  library.impl("div.out", TORCH_FN(divide));
  library.impl("sqrt.out", TORCH_FN(sqrt));
  library.impl("rsqrt.out", TORCH_FN(rsqrt));
  library.impl("neg.out", TORCH_FN(neg));
  library.impl("exp.out", TORCH_FN(exp));
  library.impl("expm1.out", TORCH_FN(expm1));
  library.impl("log.out", TORCH_FN(log));
  library.impl("reciprocal.out", TORCH_FN(reciprocal));
  library.impl("tanh.out", TORCH_FN(tanh));
  library.impl("sigmoid.out", TORCH_FN(sigmoid));
  library.impl("silu.out", TORCH_FN(silu));
  library.impl("sin.out", TORCH_FN(sin));
  library.impl("cos.out", TORCH_FN(cos));
  library.impl("abs.out", TORCH_FN(abs));
  library.impl("pow.Tensor_Scalar_out", TORCH_FN(pow));
  library.impl("silu_backward.grad_input", TORCH_FN(silu_backward));
  library.impl("gelu.out", TORCH_FN(gelu));
  library.impl("gelu_backward.grad_input", TORCH_FN(gelu_backward));
  library.impl("addcmul.out", TORCH_FN(addcmul));
  library.impl("addcdiv.out", TORCH_FN(addcdiv));
  library.impl("lerp.Scalar_out", TORCH_FN(lerp));
  library.impl("clamp_max.out", TORCH_FN(clamp_max));
  library.impl("isneginf.out", TORCH_FN(isneginf));
  library.impl("where.self_out", TORCH_FN(where_out));
  library.impl("where.self", TORCH_FN(where));
  library.impl("fill_.Scalar", TORCH_FN(fill));
  library.impl("zero_", TORCH_FN(zero));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}

}  // namespace ocl_backend
