#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <string>

#include "anyaccel/accelerator.h"
#include "anyaccel/ops/pin_memory.h"

namespace anyaccel::ops {

namespace {

template <class Result, class... Arguments>
Result call(const char* name, Arguments... arguments) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("anyaccel::pin_memory_") + name).c_str(), "")
      .typed<Result(Arguments...)>()
      .call(arguments...);
}

bool pinned_by_accelerator(const at::Tensor& tensor) {
  return tensor.is_cpu() && get_accelerator().is_pinned(tensor);
}

}  // namespace

PinHandle::PinHandle() {
  static const bool loaded = [] {
    get_accelerator().create_op_builder("PinMemoryBuilder")->load();
    return true;
  }();
  static_cast<void>(loaded);
}

at::Tensor PinHandle::new_cpu_locked_tensor(std::int64_t elements, const at::Tensor& example) {
  const auto like = at::empty({0}, at::TensorOptions().dtype(example.scalar_type()));
  if (elements >= 0)
    if (auto memory = get_accelerator().pin_empty(like, {elements});
        get_accelerator().is_pinned(memory))
      return memory;
  return call<at::Tensor, std::int64_t, const at::Tensor&>("new", elements, like);
}

bool PinHandle::free_cpu_locked_tensor(const at::Tensor& locked) {
  return call<bool, const at::Tensor&>("free", locked) || pinned_by_accelerator(locked);
}

bool PinHandle::free_cpu_locked_tensor_by_ptr(std::uintptr_t address) {
  return call<bool, std::int64_t>("free_address", static_cast<std::int64_t>(address));
}

bool PinHandle::is_pinned(const at::Tensor& buffer) const {
  return pinned_by_accelerator(buffer) || call<bool, const at::Tensor&>("is_pinned", buffer);
}

PinMemoryStats PinHandle::stats() const {
  const auto now = call<c10::Dict<std::string, std::int64_t>>("stats");
  return {.used_bytes = now.at("used_bytes"),
          .used_peak = now.at("used_peak"),
          .held_bytes = now.at("held_bytes"),
          .held_peak = now.at("held_peak"),
          .limit = now.at("limit"),
          .taken = now.at("taken"),
          .reused = now.at("reused"),
          .misplaced = now.at("misplaced")};
}

void PinHandle::trim() { call<void>("trim"); }

void PinHandle::set_limit(std::int64_t bytes) { call<void, std::int64_t>("set_limit", bytes); }

}  // namespace anyaccel::ops
