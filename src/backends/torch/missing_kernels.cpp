#include "backends/torch/missing_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

#include "base/log.h"
#include "core/guard_functions.h"

namespace anyaccel::torch_parts {

namespace {

constexpr auto kKey = c10::DispatchKey::PrivateUse1;

bool has_kernel(const char* op) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(op, "").hasKernelForDispatchKey(kKey);
}

/// Waits until the stream has finished its queued work. The allocator may then reuse or free the
/// memory at any time. Slower than an allocator that tracks streams, but equally safe.
void record_stream(at::Tensor& /*self*/, at::Stream stream) { synchronize_stream(stream); }

bool is_dense_here_or_on_host(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && (tensor.is_privateuseone() || tensor.is_cpu());
}

/// Allows `self.data = from` between dense tensors on the host and the device, as CUDA does.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.key_set() == from.key_set() ||
         (is_dense_here_or_on_host(self) && is_dense_here_or_on_host(from));
}

std::string supply() {
  // Registered for the rest of the process.
  static torch::Library library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  std::string supplied;
  const auto add = [&](const char* op, auto&& kernel) {
    if (has_kernel((std::string("aten::") + op).c_str())) return;
    library.impl(op, std::forward<decltype(kernel)>(kernel));
    supplied += (supplied.empty() ? "" : ", ") + std::string(op);
  };
  add("record_stream", TORCH_FN(record_stream));
  add("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  return supplied;
}

}  // namespace

void supply_missing_kernels(c10::DeviceType type) {
  if (type != c10::DeviceType::PrivateUse1) return;
  static std::once_flag once;  // a process has at most one such device type
  std::call_once(once, [] {
    const auto supplied = supply();
    if (!supplied.empty())
      log(LogLevel::info, "the device type '" + c10::get_privateuse1_backend(true) +
                              "' has no kernel for " + supplied + "; AnyAccel's is used");
  });
}

}  // namespace anyaccel::torch_parts
