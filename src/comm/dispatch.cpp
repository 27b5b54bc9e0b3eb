#include "comm/dispatch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

namespace anyaccel::comm {

namespace {

void as_host(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

}  // namespace

void register_operators(c10::DeviceType type) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto key = c10::computeDispatchKey(std::nullopt, std::nullopt, c10::Device(type));
  static auto* library =
      new torch::Library(torch::Library::IMPL, "c10d", std::nullopt, __FILE__, __LINE__);
  // LibTorch registers kernels for CPU, CUDA and PrivateUse1; vendors register kernels for their
  // own device types.
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("c10d::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || op->hasKernelForDispatchKey(key) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      continue;
    const auto text =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library->impl(text.c_str(),
                  torch::dispatch(key, torch::CppFunction::makeFromBoxedFunction<&as_host>()));
  }
}

}  // namespace anyaccel::comm
