// Ops that torch decomposes or selects by device type. Here they run as on the CPU, so that the
// results are bitwise equal to the CPU's.
#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "backends/sim/kernels.h"
#include "backends/sim/register.h"

namespace anyaccel::backends::sim {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// Returns the implementation that the CPU would choose for tensors of this geometry. Does not read
/// data.
std::int64_t attention_choice(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const OptionalTensor& mask, double dropout,
                              bool causal, std::optional<double> scale, bool grouped) {
  const auto host = [](const at::Tensor& tensor) {
    return on_device(tensor) ? sim::alias(tensor) : tensor;
  };
  return at::native::_fused_sdp_choice_cpp(host(query), host(key), host(value),
                                           mask ? OptionalTensor(host(*mask)) : OptionalTensor(),
                                           dropout, causal, scale, grouped);
}

/// torch chooses the attention implementation by device type, and uses the slow path for types that
/// it does not know.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const OptionalTensor& given, double dropout, bool causal,
                     std::optional<double> scale, bool grouped) {
  TORCH_CHECK(!given || !causal,
              "scaled_dot_product_attention: pass either a mask or is_causal, not both");
  auto mask = given;
  if (mask && mask->scalar_type() == at::kBool)
    mask = at::zeros(mask->sizes(), query.options())
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  const auto choice = attention_choice(query, key, value, mask, dropout, causal, scale, grouped);
  if (static_cast<at::SDPBackend>(choice) == at::SDPBackend::flash_attention)
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout,
                                                                       causal, mask, scale));
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, dropout,
                                                            causal, {}, scale, grouped));
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& input, double p,
                                           std::optional<bool> train) {
  if (!train.value_or(true))
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  mask.bernoulli_(1 - p);
  return {at::mul(input, mask).mul_(p == 1 ? 0.0 : 1 / (1 - p)), mask};
}

/// If the simulator stands in for CUDA, torch lets the softmax kernel convert half precision to
/// float. The CPU kernel requires a float input. Arguments: self, dim, half_to_float, out.
void softmax_out(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  auto& self = torch::jit::peek(*stack, 0, 4);
  auto& converts = torch::jit::peek(*stack, 2, 4);
  if (converts.toBool()) {
    self = self.toTensor().to(at::kFloat);
    converts = false;
  }
  fallback(op, keys, stack);
}

/// The backward pass of softmax_out(). Its result has the dtype of the forward input. Arguments:
/// grad_output, output, dim, input_dtype, grad_input.
void softmax_backward_out(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  const auto type = torch::jit::peek(*stack, 0, 5).toTensor().scalar_type();
  auto& wanted = torch::jit::peek(*stack, 3, 5);
  if (wanted.toScalarType() == type) return fallback(op, keys, stack);
  wanted = type;
  const auto result = torch::jit::peek(*stack, 4, 5).toTensor();
  torch::jit::peek(*stack, 4, 5) = at::empty_like(result, result.options().dtype(type));
  fallback(op, keys, stack);
  result.copy_(torch::jit::pop(*stack).toTensor());
  torch::jit::push(*stack, result);
}

/// True if the fallback must be registered for the op by name. Composite kernels take precedence
/// over a fallback and give results that differ from the CPU kernel's, and programs query whether
/// an op has a kernel for the device. Structured ops do not need the registration: they decompose
/// into their out= form, whose result has its shape before the op is queued.
bool needs_name(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         !op.hasKernelForDispatchKey(runtime().key) &&
         (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
          op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd));
}

void name_host_kernels(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !needs_name(*op) || op->schema().arguments().empty()) continue;
    const auto text =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

}  // namespace

void register_special_kernels() {
  auto& library = device_library();
  // torch would decompose the losses into their out= form, which causes a warning; see op_info.cpp.
  for (const char* name : {"convolution", "convolution_backward", "mse_loss", "smooth_l1_loss"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  for (const char* name : {"_softmax.out", "_log_softmax.out"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&softmax_out>());
  for (const char* name : {"_softmax_backward_data.out", "_log_softmax_backward_data.out"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&softmax_backward_out>());
  library.impl("_fused_sdp_choice", TORCH_FN(attention_choice));
  library.impl("native_dropout", TORCH_FN(dropout));
  // Also register it above autograd, where torch decomposes it.
  library.impl("scaled_dot_product_attention", TORCH_FN(attention));
  make_library("aten", c10::getAutogradKeyFromBackend(c10::toBackendComponent(runtime().key)))
      .impl("scaled_dot_product_attention", TORCH_FN(attention));
  name_host_kernels(library);
}

}  // namespace anyaccel::backends::sim
