// Registers torch.ops.anyaccel.pin_memory_*: pool memory as tensors.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>
#include <tuple>

#include "anyaccel/error.h"
#include "io/pinned/pool.h"
#include "ops/shared/error.h"

namespace anyaccel::ops::pin {

namespace {

/// Returns a tensor in the pool's memory. Its block returns to the pool when the last tensor that
/// uses it is destroyed, even if pin_memory_free() was called earlier.
at::Tensor pin_memory_new(std::int64_t elements, const at::Tensor& example) {
  if (elements < 0)
    throw Error(ErrorCode::invalid_argument, "new_cpu_locked_tensor",
                {.what = "the number of elements is negative", .got = std::to_string(elements)});
  const auto width = static_cast<std::int64_t>(example.dtype().itemsize());
  if (elements > std::numeric_limits<std::int64_t>::max() / width)
    throw Error(ErrorCode::invalid_argument, "new_cpu_locked_tensor",
                {.what = "the number of elements is too large", .got = std::to_string(elements)});
  auto& pool = Pool::shared();
  void* memory = pool.allocate(static_cast<std::size_t>(elements * width));
  if (const auto problem = pool.placement_problem(); !problem.empty()) {
    TORCH_WARN_ONCE("[new_cpu_locked_tensor] pinned memory is not on its NUMA node: ", problem);
  }
  return at::from_blob(
      memory, {elements}, [](void* address) { Pool::shared().give_back(address); },
      at::TensorOptions().dtype(example.scalar_type()));
}

at::Tensor pin_memory_new_meta(std::int64_t elements, const at::Tensor& example) {
  return example.new_empty({elements}, at::TensorOptions().dtype(example.scalar_type()));
}

bool pin_memory_free_address(std::int64_t address) {
  return Pool::shared().retire(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)));
}

bool pin_memory_free(const at::Tensor& tensor) {
  return tensor.is_cpu() && Pool::shared().retire(tensor.data_ptr());
}

bool pin_memory_is_pinned(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.layout() != c10::kStrided || tensor.numel() == 0) return false;
  // Offset of the last element of the view.
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return Pool::shared().contains(tensor.data_ptr(),
                                 static_cast<std::size_t>(last + 1) * tensor.element_size());
}

c10::Dict<std::string, std::int64_t> pin_memory_stats() {
  const auto now = Pool::shared().statistics();
  c10::Dict<std::string, std::int64_t> out;
  out.insert("used_bytes", now.used_bytes);
  out.insert("used_peak", now.used_peak);
  out.insert("held_bytes", now.held_bytes);
  out.insert("held_peak", now.held_peak);
  out.insert("limit", now.limit);
  out.insert("taken", now.taken);
  out.insert("reused", now.reused);
  out.insert("misplaced", now.misplaced);
  return out;
}

std::int64_t pin_memory_error_code(const std::string& message) { return error_code_of(message); }

void pin_memory_trim() { Pool::shared().trim(); }

void pin_memory_set_limit(std::int64_t bytes) {
  if (bytes < 0)
    throw Error(ErrorCode::invalid_argument, "pin_memory_set_limit",
                {.what = "the limit is negative",
                 .got = std::to_string(bytes),
                 .want = "0 (no limit) or a number of bytes"});
  Pool::shared().set_limit(bytes);
}

}  // namespace

}  // namespace anyaccel::ops::pin

TORCH_LIBRARY_FRAGMENT(anyaccel, library) {
  using namespace anyaccel::ops::pin;
  const auto key = c10::DispatchKey::CompositeExplicitAutograd;
  library.def("pin_memory_new(int num_elem, Tensor example) -> Tensor");
  library.impl("pin_memory_new", torch::dispatch(key, &pin_memory_new));
  library.impl("pin_memory_new", torch::dispatch(c10::DispatchKey::Meta, &pin_memory_new_meta));
  library.def("pin_memory_free(Tensor locked_tensor) -> bool",
              torch::dispatch(key, &pin_memory_free));
  library.def("pin_memory_free_address(int address) -> bool",
              torch::dispatch(key, &pin_memory_free_address));
  library.def("pin_memory_is_pinned(Tensor buffer) -> bool",
              torch::dispatch(key, &pin_memory_is_pinned));
  library.def("pin_memory_stats() -> Dict(str, int)", torch::dispatch(key, &pin_memory_stats));
  library.def("pin_memory_error_code(str message) -> int",
              torch::dispatch(key, &pin_memory_error_code));
  library.def("pin_memory_trim() -> ()", torch::dispatch(key, &pin_memory_trim));
  library.def("pin_memory_set_limit(int bytes) -> ()", torch::dispatch(key, &pin_memory_set_limit));
}
