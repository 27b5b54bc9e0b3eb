// The ops that every device must implement: creating tensors and views, copying, and the ops that
// torch leaves to the device. Add the device's kernels for torch's ops to this file;
// device/fallback.cpp runs all other ops. The folder kernels/ is for ops with op builders.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <tuple>

#include "device/device.h"

namespace hostcard_backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor on_device(const Tensor& host) {
  auto out = at::empty_strided(host.sizes(), host.strides(), host.options().device(kDeviceType));
  host_view(out).copy_(host);
  return out;
}

Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
             std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
             std::optional<bool> /*pin*/, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &allocator(), kKeys,
                                   dtype.value_or(at::get_default_dtype_as_scalartype()), format);
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                     std::optional<at::Device> device, std::optional<bool> /*pin*/) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), &allocator(), kKeys,
                                           dtype.value_or(at::get_default_dtype_as_scalartype()));
}

Tensor as_strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                  std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<std::int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}

Tensor view(const Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}

/// Grows the storage to at least `bytes` and preserves its content.
void grow(c10::StorageImpl& storage, std::size_t bytes) {
  if (bytes <= storage.nbytes()) return;
  const c10::DeviceGuard guard(storage.device());
  auto memory = allocator().allocate(bytes);
  if (storage.nbytes() > 0) allocator().copy_data(memory.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(bytes);
}

const Tensor& resize(const Tensor& self, c10::SymIntArrayRef size,
                     std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  if (format && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  grow(*self.storage().unsafeGetStorageImpl(),
       static_cast<std::size_t>(self.storage_offset() + self.numel()) * self.itemsize());
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                    c10::SymIntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                              offset.guard_int(__FILE__, __LINE__));
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto count = static_cast<std::int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, c10::SymIntArrayRef({c10::SymInt(count)}),
                     c10::SymIntArrayRef({c10::SymInt(1)}));
}

Tensor copy_from(const Tensor& self, const Tensor& target, bool /*non_blocking*/) {
  const auto views = host_views({target, self});
  views[0].copy_(views[1]);
  return target;
}

Tensor& copy_into(Tensor& self, const Tensor& source, bool non_blocking) {
  copy_from(source, self, non_blocking);
  return self;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& target) {
  target.resize_(self.sizes());
  return copy_from(self, target, false);
}

void record_stream(Tensor& self, at::Stream stream) {
  allocator().recordStream(self.storage().data_ptr(), stream);
}

bool same_kind(const Tensor& /*self*/, const Tensor& /*from*/) { return true; }

/// Returns SDPBackend::math (0, see ATen/SDPBackend.h): torch composes attention from other ops.
std::int64_t attention_choice(const Tensor& /*query*/, const Tensor& /*key*/,
                              const Tensor& /*value*/, const OptionalTensor& /*mask*/,
                              double /*dropout*/, bool /*causal*/, std::optional<double> /*scale*/,
                              bool /*gqa*/) {
  return 0;
}

// The CPU kernel would draw from the host's generator.
std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, std::optional<bool> train) {
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  if (!train.value_or(true) || p == 0) return {input.clone(), mask.fill_(true)};
  mask.bernoulli_(1 - p);
  return {p == 1 ? input.mul(0) : input.mul(mask).div_(1 - p), mask};
}

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, std::int64_t groups) {
  const auto views = host_views({input, weight, bias.value_or(Tensor())});
  const c10::DeviceGuard guard(input.device());
  return on_device(at::convolution(views[0], views[1], views[2], stride, padding, dilation,
                                   transposed, output_padding, groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& input,
                                                        const Tensor& weight, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation,
                                                        bool transposed, IntArrayRef output_padding,
                                                        std::int64_t groups,
                                                        std::array<bool, 3> wanted) {
  const std::vector<std::int64_t> bias_size{transposed ? weight.size(1) * groups : weight.size(0)};
  const auto views = host_views({gradient, input, weight});
  auto [of_input, of_weight, of_bias] = at::convolution_backward(
      views[0], views[1], views[2], at::OptionalIntArrayRef(bias_size), stride, padding, dilation,
      transposed, output_padding, groups, wanted);
  const c10::DeviceGuard guard(input.device());
  const auto back = [](const Tensor& host) { return host.defined() ? on_device(host) : host; };
  return {back(of_input), back(of_weight), back(of_bias)};
}

}  // namespace

void register_kernels() {
  static torch::Library ops(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                            __LINE__);
  ops.impl("empty.memory_format", TORCH_FN(empty));
  ops.impl("empty_strided", TORCH_FN(empty_strided));
  ops.impl("as_strided", TORCH_FN(as_strided));
  ops.impl("view", TORCH_FN(view));
  ops.impl("_reshape_alias", TORCH_FN(reshape_alias));
  ops.impl("resize_", TORCH_FN(resize));
  ops.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  ops.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  ops.impl("copy_", TORCH_FN(copy_into));
  ops.impl("_copy_from", TORCH_FN(copy_from));
  ops.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  ops.impl("record_stream", TORCH_FN(record_stream));
  ops.impl("_has_compatible_shallow_copy_type", TORCH_FN(same_kind));
  ops.impl("_fused_sdp_choice", TORCH_FN(attention_choice));
  ops.impl("native_dropout", TORCH_FN(dropout));
  ops.impl("convolution_overrideable", TORCH_FN(convolution));
  ops.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

}  // namespace hostcard_backend
