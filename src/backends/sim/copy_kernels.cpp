// Implements copies within a device, between devices, and to and from the host.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/resize.h>

#include "backends/sim/event.h"
#include "backends/sim/kernels.h"
#include "backends/sim/pinned.h"
#include "backends/sim/register.h"
#include "backends/sim/reject.h"

namespace anyaccel::backends::sim {

namespace {

constexpr const char* kCopy = "aten::copy_";
constexpr const char* kPageable =
    "a copy from pageable host memory cannot be captured; pin the memory";
// CUDA, too, stages small copies from pageable memory and returns immediately.
constexpr std::size_t kStaged = 64 << 10;

/// Returns a tensor that aliases the same pinned memory through the view that copies use.
at::Tensor through_device_view(const at::Tensor& host) {
  const auto& storage = host.storage();
  auto view = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(device_view(const_cast<void*>(storage.data())), c10::Device(c10::kCPU)), nullptr,
      false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(view)), c10::DispatchKeySet(c10::DispatchKey::CPU), host.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  if (host.is_conj()) impl->_set_conj(true);
  if (host.is_neg()) impl->_set_neg(true);
  return tensor;
}

void launch_copy(SimStream& stream, const at::Tensor& to, const at::Tensor& from,
                 const at::Tensor& host_to, const at::Tensor& host_from) {
  Operand operands[2];
  std::size_t count = 0;
  if (on_device(to) || is_pinned(to.storage().data())) operands[count++] = operand(to, true);
  if (on_device(from) || is_pinned(from.storage().data())) operands[count++] = operand(from, false);
  launch_function(stream, kCopy, {operands, count},
                  [host_to, host_from] { host_to.copy_(host_from); });
}

void copy_from_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  auto& stream = current_stream(to.device().index());
  const bool pinned = is_pinned(from.storage().data());
  if (pinned) {
    launch_copy(stream, to, from, alias(to), through_device_view(from));
    void* const data = const_cast<void*>(from.storage().data());
    pinned_allocator().record_event(data, nullptr, to_torch(stream));
    if (!non_blocking)
      drain(stream, kCopy);
    else if (auto* watching = observer())
      watching->on_pinned_copy(operand(from, false), stream);
    return;
  }
  if (from.nbytes() <= kStaged) {
    // The caller may change `from` as soon as this returns.
    at::Tensor staged = at::Tensor(at::detail::empty_cpu(from.sizes(), from.scalar_type()));
    staged.copy_(from);
    if (stream.capture() != nullptr) reject(kPageable);
    launch_copy(stream, to, from, alias(to), staged);
    // Other streams may rely on this wait: on GPUs, too, a copy waits unless the caller requests an
    // asynchronous one.
    if (!non_blocking) drain(stream, kCopy);
    return;
  }
  if (stream.capture() != nullptr) reject(kPageable);
  launch_copy(stream, to, from, alias(to), without_object(from));
  if (non_blocking)
    stream.wait(stream.last());
  else
    drain(stream, kCopy);
}

void copy_to_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  auto& stream = current_stream(from.device().index());
  if (non_blocking && is_pinned(to.storage().data())) {
    launch_copy(stream, to, from, through_device_view(to), alias(from));
    void* const data = const_cast<void*>(to.storage().data());
    pinned_allocator().record_event(data, nullptr, to_torch(stream));
    if (auto* watching = observer()) watching->on_pinned_copy(operand(to, true), stream);
    return;
  }
  if (stream.capture() != nullptr)
    reject("a blocking copy to the host cannot be captured; use non_blocking and pinned memory");
  launch_copy(stream, to, from,
              is_pinned(to.storage().data()) ? through_device_view(to) : without_object(to),
              alias(from));
  drain(stream, kCopy);
}

/// As between GPUs, the copy runs on the source's stream and is ordered with both current streams.
void copy_between_devices(const at::Tensor& to, const at::Tensor& from) {
  auto& source = current_stream(from.device().index());
  auto& target = current_stream(to.device().index());
  wait_mark(source, record_mark(target));
  launch_copy(source, to, from, alias(to), alias(from));
  wait_mark(target, record_mark(source));
}

at::Tensor& copy_kernel(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  if (self.numel() == 0 && from.numel() == 0) return self;
  if (self.is_same(from)) return self;
  const auto expanded = from.sizes() == self.sizes() ? from : from.expand(self.sizes());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!on_device(expanded))
    copy_from_host(self, expanded, non_blocking);
  else if (!on_device(self))
    copy_to_host(self, expanded, non_blocking);
  else if (self.device() != expanded.device())
    copy_between_devices(self, expanded);
  else
    launch_copy(current_stream(self.device().index()), self, expanded, alias(self),
                alias(expanded));
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  at::Tensor target = to;
  return copy_kernel(target, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  at::Tensor target = to;
  target.resize_(self.sizes());
  return copy_kernel(target, self, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  auto& stream = current_stream(self.device().index());
  if (auto* watching = observer()) {
    const Operand read[] = {operand(self, false)};
    watching->on_launch(stream, {.op = "aten::item", .operands = read});
  }
  drain(stream, "aten::item");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto host = alias(self);
  // Resolve the conjugate and negative bits, because they are not applied to the value in memory.
  return at::_local_scalar_dense(host.resolve_conj().resolve_neg());
}

}  // namespace

void register_copy_kernels() {
  auto& library = device_library();
  library.impl("copy_", TORCH_FN(copy_kernel));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}

}  // namespace anyaccel::backends::sim
