// Registers which ops autocast runs in the lower precision and which in float32, as for torch's own
// devices.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "device/device.h"

namespace ocl_backend {
namespace {

constexpr const char* kLower[] = {
    "mm", "matmul", "linear", "addmm",  "bmm",    "baddbmm", "addbmm",
    "mv", "addmv",  "addr",   "conv1d", "conv2d", "conv3d",  "scaled_dot_product_attention"};
constexpr const char* kFloat[] = {
    "softmax.int", "log_softmax.int", "layer_norm", "cross_entropy_loss",
    "nll_loss",    "mse_loss",        "exp",        "log",
    "rsqrt",       "cumsum"};

template <bool lower>
void cast_and_call(const c10::OperatorHandle& op, c10::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::AutocastPrivateUse1);
  const auto type = lower ? at::autocast::get_autocast_dtype(kDeviceType) : at::kFloat;
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  for (auto value = stack->end() - count; value != stack->end(); ++value)
    if (value->isTensor()) *value = at::autocast::cached_cast(type, value->toTensor(), kDeviceType);
  op.callBoxed(stack);
}

}  // namespace

void register_autocast() {
  static torch::Library rest(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1,
                             __FILE__, __LINE__);
  rest.fallback(torch::CppFunction::makeFallthrough());
  static torch::Library ops(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1,
                            __FILE__, __LINE__);
  for (const char* name : kLower)
    ops.impl(name, torch::CppFunction::makeFromBoxedFunction<&cast_and_call<true>>());
  for (const char* name : kFloat)
    ops.impl(name, torch::CppFunction::makeFromBoxedFunction<&cast_and_call<false>>());
}

}  // namespace ocl_backend
