// Pinned and registered host memory.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "core/checks.h"

namespace anyaccel {

namespace {

void require_host(const at::Tensor& tensor, const char* where) {
  if (tensor.defined() && tensor.device().is_cpu()) return;
  throw Error(
      ErrorCode::invalid_argument, where,
      {.what = "only tensors in host memory can be pinned",
       .got = tensor.defined() ? "a tensor on " + tensor.device().str() : "an undefined tensor",
       .want = "a tensor in host memory"});
}

at::Tensor empty_pinned(c10::Allocator* allocator, c10::IntArrayRef shape, c10::ScalarType dtype,
                        const char* where) {
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 0; }))
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "a size is negative", .want = "sizes of 0 or more"});
  return translated(where, [&]() -> at::Tensor {
    if (allocator == nullptr) return at::empty(shape, at::TensorOptions().dtype(dtype));
    return at::Tensor(at::detail::empty_generic(
        shape, allocator, c10::DispatchKeySet(c10::DispatchKey::CPU), dtype, std::nullopt));
  });
}

}  // namespace

at::Tensor Accelerator::pin_memory(const at::Tensor& tensor, bool make_copy, bool match_shape) {
  require_host(tensor, "pin_memory");
  auto* allocator = backend_->host_allocator();
  // contiguous() would copy a pinned tensor with a different memory format into unpinned memory, so
  // copy such a tensor here.
  const bool reuse =
      make_copy && (allocator == nullptr || (tensor.is_contiguous() && is_pinned(tensor)));
  at::Tensor pinned =
      reuse ? tensor.contiguous()
            : empty_pinned(allocator, tensor.sizes(), tensor.scalar_type(), "pin_memory");
  if (make_copy && !reuse) pinned.copy_(tensor);
  return match_shape ? pinned : pinned.reshape({-1});
}

at::Tensor Accelerator::pin_empty(const at::Tensor& like, c10::IntArrayRef shape) {
  require_host(like, "pin_empty");
  return empty_pinned(backend_->host_allocator(), shape, like.scalar_type(), "pin_empty");
}

at::Tensor Accelerator::pin_empty_like(const at::Tensor& like) {
  require_host(like, "pin_empty_like");
  return empty_pinned(backend_->host_allocator(), like.sizes(), like.scalar_type(),
                      "pin_empty_like");
}

at::Tensor Accelerator::unpin_memory(const at::Tensor& tensor) {
  require_host(tensor, "unpin_memory");
  if (!is_pinned(tensor)) return tensor;
  auto plain = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
  plain.copy_(tensor);
  return plain;
}

bool Accelerator::is_pinned(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.device().is_cpu()) return false;
  auto* const allocator = backend_->host_allocator();
  if (allocator == nullptr) return false;
  // torch may not recognize memory from a backend's own allocator, but the deleter identifies it.
  const auto& memory = tensor.storage().data_ptr();
  if (memory.get() != nullptr && allocator->raw_deleter() != nullptr &&
      memory.get_deleter() == allocator->raw_deleter())
    return true;
  return at::globalContext().isPinnedPtr(tensor.storage().data(), device_type());
}

std::int64_t Accelerator::pin_memory_alignment() const noexcept { return 1; }

bool Accelerator::register_host_memory(void* address, std::int64_t num_bytes) {
  if (address == nullptr || num_bytes <= 0)
    throw Error(ErrorCode::invalid_argument, "register_host_memory",
                {.what = "invalid memory range",
                 .got = std::to_string(num_bytes) + " bytes at " +
                        (address == nullptr ? "null" : "an address"),
                 .want = "an address and a size above 0"});
  return translated("register_host_memory", [&] {
    return backend_->register_host_memory(address, static_cast<std::size_t>(num_bytes));
  });
}

void Accelerator::unregister_host_memory(void* address) {
  translated("unregister_host_memory", [&] { backend_->unregister_host_memory(address); });
}

HostMemoryStats Accelerator::host_memory_stats() const {
  auto* allocator = dynamic_cast<at::HostAllocator*>(backend_->host_allocator());
  if (allocator == nullptr) return {};
  const auto stats = allocator->get_stats();
  return {.allocated_bytes = {stats.active_bytes.current, stats.active_bytes.peak},
          .reserved_bytes = {stats.allocated_bytes.current, stats.allocated_bytes.peak},
          .num_host_alloc = stats.num_host_alloc,
          .num_host_free = stats.num_host_free};
}

}  // namespace anyaccel
