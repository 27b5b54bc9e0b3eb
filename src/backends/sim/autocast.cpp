// Autocast for device types that torch's autocast does not support. Uses torch's op lists.
#include <ATen/autocast_mode.h>

#include "backends/sim/kernels.h"
#include "backends/sim/register.h"

namespace anyaccel::backends::sim {

namespace {

using torch::jit::Stack;

c10::DispatchKey autocast_key() {
  return at::autocast::get_autocast_dispatch_key_from_device_type(runtime().type);
}

bool eligible(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() && on_device(tensor) &&
         tensor.scalar_type() != at::kDouble;
}

template <typename Visit>
void for_tensors(c10::ArrayRef<c10::IValue> arguments, Visit visit) {
  for (const auto& value : arguments) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const auto& each : value.toListRef())
        if (each.isTensor()) visit(each.toTensor());
    }
  }
}

void cast_arguments(const c10::OperatorHandle& op, Stack* stack, at::ScalarType dtype) {
  const auto one = [&](const at::Tensor& tensor) {
    return eligible(tensor) ? at::autocast::cached_cast(dtype, tensor, runtime().type) : tensor;
  };
  const auto count = op.schema().arguments().size();
  for (auto value = stack->end() - static_cast<std::ptrdiff_t>(count); value != stack->end();
       ++value) {
    if (value->isTensor()) {
      *value = one(value->toTensor());
    } else if (value->isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& each : value->toListRef()) list.push_back(one(each.toTensor()));
      *value = std::move(list);
    }
  }
}

void to_lower(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(autocast_key());
  cast_arguments(op, stack, at::autocast::get_autocast_dtype(runtime().type));
  op.callBoxed(stack);
}

void to_float(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(autocast_key());
  cast_arguments(op, stack, at::kFloat);
  op.callBoxed(stack);
}

/// Handles ops with an argument for the result's dtype. If the argument is not set, it becomes
/// float32.
void with_float_result(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(autocast_key());
  const auto& arguments = op.schema().arguments();
  bool any = false;
  for_tensors(torch::jit::last(*stack, arguments.size()),
              [&](const at::Tensor& tensor) { any |= eligible(tensor); });
  for (std::size_t i = 0; any && i < arguments.size(); ++i) {
    auto& value = torch::jit::peek(*stack, i, arguments.size());
    if (arguments[i].name() == "dtype" && value.isNone()) value = at::kFloat;
  }
  op.callBoxed(stack);
}

/// Casts all arguments to the widest dtype among them.
void to_widest(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(autocast_key());
  auto widest = at::autocast::get_autocast_dtype(runtime().type);
  for_tensors(torch::jit::last(*stack, op.schema().arguments().size()),
              [&](const at::Tensor& tensor) {
                if (eligible(tensor) && tensor.scalar_type() == at::kFloat) widest = at::kFloat;
              });
  cast_arguments(op, stack, widest);
  op.callBoxed(stack);
}

template <c10::BoxedKernel::BoxedKernelFunction_withDispatchKeys* kernel>
void put(torch::Library& library, const char* name, const char* overload = "") {
  // The lists come from one version of torch. Some of these ops may be missing from other versions.
  const auto full = std::string("aten::") + name;
  if (!c10::Dispatcher::singleton().findSchema({full, overload})) return;
  library.impl((std::string(name) + (*overload == '\0' ? "" : ".") + overload).c_str(),
               torch::CppFunction::makeFromBoxedFunction<kernel>());
}

/// As on CUDA, this is an error, because the loss of float16 probabilities is often infinite.
at::Tensor reject_binary_cross_entropy(const at::Tensor& /*input*/, const at::Tensor& /*target*/,
                                       const std::optional<at::Tensor>& /*weight*/,
                                       std::int64_t /*reduction*/) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
              "autocast. Use binary_cross_entropy_with_logits or BCEWithLogitsLoss, or disable "
              "autocast for this call.");
}

}  // namespace

void register_autocast() {
  const auto key = autocast_key();
  // torch registers a fallback for each type for which it implements autocast.
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) return;
  auto& rest = make_library("_", key);
  rest.fallback(torch::CppFunction::makeFallthrough());
  auto& library = make_library("aten", key);
#define ANYACCEL_FIRST_(name, overload, ...) #name, #overload
#define ANYACCEL_PUT_(kernel, ...) put<&kernel>(library, ANYACCEL_FIRST_(__VA_ARGS__, ));
#define ANYACCEL_LOWER(...) ANYACCEL_PUT_(to_lower, __VA_ARGS__)
#define ANYACCEL_FLOAT(...) ANYACCEL_PUT_(to_float, __VA_ARGS__)
#define ANYACCEL_RESULT(...) ANYACCEL_PUT_(with_float_result, __VA_ARGS__)
#define ANYACCEL_WIDEST(...) ANYACCEL_PUT_(to_widest, __VA_ARGS__)
  AT_FORALL_LOWER_PRECISION_FP(ANYACCEL_LOWER)
  AT_FORALL_FP32(ANYACCEL_FLOAT)
  AT_FORALL_FP32_SET_OPT_DTYPE(ANYACCEL_RESULT)
  AT_FORALL_PROMOTE(ANYACCEL_WIDEST)
  library.impl("binary_cross_entropy", TORCH_FN(reject_binary_cross_entropy));
#undef ANYACCEL_WIDEST
#undef ANYACCEL_RESULT
#undef ANYACCEL_FLOAT
#undef ANYACCEL_LOWER
#undef ANYACCEL_PUT_
#undef ANYACCEL_FIRST_
}

}  // namespace anyaccel::backends::sim
