// Runs every torch op for which kernels.cpp has no kernel: calls the CPU kernel on the device's
// memory. A backend for a real device registers kernels in kernels.cpp; its fallback copies tensors
// to the host or throws.
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <utility>
#include <vector>

#include "device/device.h"

namespace hostcard_backend {
namespace {

bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDeviceType;
}

/// Returns a CPU tensor with the sizes and strides of `tensor` in `memory`.
at::Tensor view_of(const at::Tensor& tensor, c10::Storage memory) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      std::move(memory), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* impl = view.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

/// One call of an op. Maps device tensors to host tensors with the same memory.
class Call {
 public:
  at::Tensor to_host(const at::Tensor& tensor, bool may_differ) {
    if (!is_ours(tensor)) {
      TORCH_CHECK(may_differ || !tensor.defined() || tensor.dim() == 0,
                  "expected all tensors to be on the same device, but one is on ", tensor.device());
      return tensor;
    }
    TORCH_CHECK(!device_ || *device_ == tensor.device() || tensor.dim() == 0,
                "expected all tensors to be on the same device, but found ", *device_, " and ",
                tensor.device());
    if (!device_) device_ = tensor.device();
    for (const auto& [own, view] : views_)
      if (own.is_same(tensor)) return view;
    // Tensors that share a storage share its view, so that a copied or mapped storage has one copy.
    for (const auto& [own, view] : views_)
      if (own.storage().is_alias_of(tensor.storage()))
        return views_.emplace_back(tensor, view_of(tensor, view.storage())).second;
    return views_.emplace_back(tensor, host_view(tensor)).second;
  }

  c10::IValue to_host(const c10::IValue& value) {
    if (value.isTensor()) return to_host(value.toTensor(), false);
    if (value.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const auto& tensor : value.toTensorVector()) out.push_back(to_host(tensor, false));
      return out;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> out;
      // Indices may be on the host.
      for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
        out.push_back(tensor ? std::optional(to_host(*tensor, true)) : std::nullopt);
      return out;
    }
    if (value.isGenerator() && value.toGenerator().device().type() == kDeviceType)
      return host_generator(value.toGenerator());
    if (value.isDevice() && value.toDevice().type() == kDeviceType) {
      device_ = value.toDevice();
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  /// Returns the device of the results.
  c10::Device device() const {
    const auto index = device_ ? device_->index() : c10::DeviceIndex(-1);
    return {kDeviceType, index < 0 ? current_device() : index};
  }

  /// If the kernel resized an output, resizes the device tensor. Copies the values if the kernel
  /// moved them to other memory of the host; the view of the old memory is then gone.
  void put_back() {
    for (const auto& [own, view] : views_) {
      const bool moved = view.storage().data() != own.storage().data();
      if (view.sizes() == own.sizes() && !moved) continue;
      if (moved) {
        own.resize_(view.sizes());
        host_view(own).copy_(view);
      } else {
        // The memory is still mapped by `view`, and a region must not be mapped twice.
        own.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides(),
                                                         view.storage_offset());
      }
    }
  }

  at::Tensor to_device(const at::Tensor& result) const {
    if (!result.defined() || is_ours(result)) return result;
    for (const auto& [own, view] : views_)
      if (view.is_same(result)) return own;
    const auto options = result.options().device(device());
    for (const auto& [own, view] : views_)
      if (view.storage().data() != nullptr && view.storage().data() == result.storage().data())
        return at::empty({0}, options)
            .set_(own.storage(), result.storage_offset(), result.sizes(), result.strides());

    auto out = at::empty_strided(result.sizes(), result.strides(), options);
    host_view(out).copy_(result);
    return out;
  }

  c10::IValue to_device(const c10::IValue& value) const {
    if (value.isTensor()) return to_device(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> out;
    for (const auto& tensor : value.toTensorVector()) out.push_back(to_device(tensor));
    return out;
  }

 private:
  std::optional<c10::Device> device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> views_;
};

}  // namespace

void fallback(const c10::OperatorHandle& op, c10::Stack* stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  // The tensors must outlive the call, because the views use their memory.
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count),
                                           stack->end());
  stack->resize(stack->size() - count);
  Call call;
  std::vector<std::size_t> generators;
  for (std::size_t i = 0; i < count; ++i) {
    if (schema.arguments()[i].name() == "generator" && arguments[i].isNone())
      generators.push_back(stack->size());
    stack->push_back(call.to_host(arguments[i]));
  }
  // Without an explicit generator, the kernel would draw from the host's default generator.
  for (const auto place : generators)
    (*stack)[place] = host_generator(default_generator(call.device().index()));
  const c10::DeviceGuard guard(call.device());
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  call.put_back();
  const auto results = schema.returns().size();
  for (auto place = stack->end() - static_cast<std::ptrdiff_t>(results); place != stack->end();
       ++place)
    *place = call.to_device(*place);
}

at::Tensor host_view(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  // Resizable, because some kernels resize their outputs.
  c10::Storage memory(c10::Storage::use_byte_size_t(), storage.nbytes(),
                      c10::DataPtr(const_cast<void*>(storage.data()), c10::Device(c10::kCPU)),
                      c10::GetAllocator(c10::kCPU),
                      /*resizable=*/true);
  return view_of(tensor, std::move(memory));
}

std::vector<at::Tensor> host_views(at::ArrayRef<at::Tensor> tensors) {
  std::vector<at::Tensor> views;
  for (const auto& tensor : tensors) {
    if (!is_ours(tensor)) {
      views.push_back(tensor);
      continue;
    }
    std::size_t i = 0;  // the first tensor with the same storage
    while (!is_ours(tensors[i]) || !tensors[i].storage().is_alias_of(tensor.storage())) ++i;
    views.push_back(i < views.size() ? view_of(tensor, views[i].storage()) : host_view(tensor));
  }
  return views;
}

void register_fallback() {
  static torch::Library ops(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                            __LINE__);
  ops.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  static torch::Library autograd(torch::Library::IMPL, "_", c10::DispatchKey::AutogradPrivateUse1,
                                 __FILE__, __LINE__);
  autograd.fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace hostcard_backend
