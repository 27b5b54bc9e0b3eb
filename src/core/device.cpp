// Device functions: indices, names, properties.
#include "anyaccel/device.h"

#include <ATen/core/Tensor.h>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "core/checks.h"

namespace anyaccel {

DeviceIndex Accelerator::checked(std::optional<DeviceIndex> index, const char* where) const {
  if (!index) {
    const auto current = translated(where, [&] { return backend_->current_device(); });
    run_lazy_calls();
    return current;
  }
  const auto count = backend_->device_count();
  if (*index >= 0 && *index < count) return *index;
  // If device names have no index, accept any index: programs pass their local rank, which may
  // exceed the device count. Ranks without a device of their own share device 0.
  if (!backend_->traits().indexed_names && count > 0) return 0;
  throw Error(ErrorCode::invalid_argument, where,
              {.what = count > 0 ? "device index out of range for the accelerator '" + name() + "'"
                                 : "the accelerator '" + name() + "' has no devices",
               .got = (count > 0 ? "" : "device index ") + std::to_string(*index),
               .want = count > 0 ? "0 to " + std::to_string(count - 1) : "",
               .hint = "see device_count()"});
}

bool Accelerator::is_available() const noexcept { return backend_->device_count() > 0; }

DeviceIndex Accelerator::device_count() const noexcept { return backend_->device_count(); }

DeviceIndex Accelerator::current_device() const {
  return translated("current_device", [&] { return backend_->current_device(); });
}

std::string Accelerator::device_name(std::optional<DeviceIndex> device_index) const {
  const auto& traits = backend_->traits();
  if (!device_index) return traits.device_type;
  const auto index = checked(device_index, "device_name");
  return traits.indexed_names ? traits.device_type + ":" + std::to_string(index)
                              : traits.device_type;
}

std::string Accelerator::current_device_name() const {
  const auto& traits = backend_->traits();
  return traits.indexed_names ? traits.device_type + ":" + std::to_string(current_device())
                              : traits.device_type;
}

c10::Device Accelerator::torch_device(std::optional<DeviceIndex> device_index) const {
  if (!backend_->traits().indexed_names) {
    if (device_index) checked(device_index, "torch_device");
    return c10::Device(device_type());
  }
  return {device_type(), static_cast<c10::DeviceIndex>(checked(device_index, "torch_device"))};
}

void Accelerator::set_device(DeviceIndex device_index) {
  const auto index = checked(device_index, "set_device");
  translated("set_device", [&] { backend_->set_device(index); });
  run_lazy_calls();
}

void Accelerator::synchronize(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "synchronize");
  translated("synchronize", [&] { backend_->synchronize(index); });
  run_lazy_calls();
}

DeviceProperties Accelerator::device_properties(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "device_properties");
  return translated("device_properties", [&] {
    auto properties = backend_->properties(index);
    try {
      if (properties.total_memory < 0) properties.total_memory = backend_->memory_info(index).total;
    } catch (const std::exception&) {  // the size remains unknown
    }
    return properties;
  });
}

std::pair<int, int> Accelerator::compute_capability(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "compute_capability");
  const auto properties =
      translated("compute_capability", [&] { return backend_->properties(index); });
  if (properties.compute_capability) return *properties.compute_capability;
  throw Error(ErrorCode::unsupported, "compute_capability",
              {.what = "devices of the accelerator '" + name() + "' have no compute capability",
               .hint = "use dtype_support() instead"});
}

bool Accelerator::is_triton_supported() const {
  return is_available() &&
         backend_->properties(checked(std::nullopt, "is_triton_supported")).triton;
}

bool Accelerator::prefer_triton_grouped_mm() const {
  return is_available() && backend_->properties(checked(std::nullopt, "prefer_triton_grouped_mm"))
                               .prefers_triton_grouped_mm;
}

bool Accelerator::on_accelerator(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.device().type() == device_type();
}

DeviceGuard Accelerator::device(DeviceIndex device_index) { return {*this, device_index}; }

DeviceGuard::DeviceGuard(Accelerator& accelerator, DeviceIndex index)
    : accelerator_(accelerator), previous_(accelerator.current_device()) {
  accelerator_.set_device(index);
}

DeviceGuard::~DeviceGuard() {
  try {
    accelerator_.backend().set_device(previous_);
  } catch (...) {  // a lost device; the next call on it reports the error
  }
}

}  // namespace anyaccel
