#include "anyaccel/sdk/torch_backend.h"

#include "anyaccel/error.h"
#include "backends/torch/missing_kernels.h"
#include "backends/torch/parts.h"
#include "core/guard_functions.h"

namespace anyaccel::sdk {

using torch_parts::guard;

namespace {

const at::AcceleratorHooksInterface& hooks(c10::DeviceType type) {
  return at::globalContext().getAcceleratorHooksInterface(type);
}

}  // namespace

TorchBackend::TorchBackend(Traits traits) : Backend(std::move(traits)) {
  if (!c10::impl::hasDeviceGuardImpl(device_type()))
    throw Error(
        ErrorCode::unavailable, traits_.name,
        {.what = "the LibTorch loaded in this process was built without this device type",
         .got = traits_.device_type,
         .hint = "use a LibTorch built for this device type, or load the vendor's library first"});
  torch_parts::supply_missing_kernels(device_type());
}

void TorchBackend::start() const {
  torch_parts::initialize_vendor_library(device_type(), 0);
  at::globalContext().lazyInitDevice(device_type());
}

c10::Device TorchBackend::torch_device(DeviceIndex index) const {
  return {device_type(), static_cast<c10::DeviceIndex>(index)};
}

DeviceIndex TorchBackend::device_count() const noexcept {
  return guard(device_type()).deviceCount();
}

DeviceIndex TorchBackend::current_device() const {
  return guard(device_type()).getDevice().index();
}

void TorchBackend::set_device(DeviceIndex index) {
  // With this device, so that a process that uses only one device does not open device 0.
  torch_parts::initialize_vendor_library(device_type(), torch_device(index).index());
  start();
  guard(device_type()).setDevice(torch_device(index));
}

void TorchBackend::synchronize(DeviceIndex index) {
  start();
  guard(device_type()).synchronizeDevice(static_cast<c10::DeviceIndex>(index));
}

bool TorchBackend::is_initialized() const noexcept {
  try {
    const auto type = device_type();
    // Check all devices, because work may run on a device that is not this thread's current one.
    for (c10::DeviceIndex i = 0; i < guard(type).deviceCount(); ++i)
      if (hooks(type).hasPrimaryContext(i)) return true;
    return false;
  } catch (...) {  // the hooks do not implement it
    return false;
  }
}

DeviceProperties TorchBackend::properties(DeviceIndex index) const {
  auto properties = Backend::properties(index);
  properties.name = traits_.indexed_names ? torch_device(index).str() : traits_.device_type;
  try {
    properties.total_memory = memory_info(index).total;
  } catch (const std::exception&) {  // the size remains unknown
  }
  return properties;
}

DtypeSupport TorchBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  auto support = Backend::dtype_support(index, dtype);
  if (dtype == c10::kDouble && !traits_.fp64) return {};
  // Device types that do not report their dtypes keep the default list above.
  const auto bit = static_cast<unsigned>(dtype);
  if (bit < 64 && ((torch_parts::storable_dtypes(torch_device(index)) >> bit) & 1U) == 0) return {};
  return support;
}

at::Generator TorchBackend::default_generator(DeviceIndex index) const {
  return at::globalContext().defaultGenerator(torch_device(index));
}

Stream TorchBackend::current_stream(DeviceIndex index) const {
  start();
  return {guard(device_type()).getStream(torch_device(index)), index};
}

void TorchBackend::set_stream(const Stream& stream) {
  start();
  guard(device_type()).exchangeStream(stream.unwrap());
}

Stream TorchBackend::default_stream(DeviceIndex index) const {
  start();
  const auto device = torch_device(index);
  try {
    return {guard(device_type()).getDefaultStream(device), index};
  } catch (const c10::Error& error) {
    if (!guard_lacks_function(error)) throw;
    return {torch_parts::initial_stream(device), index};
  }
}

Stream TorchBackend::new_stream(DeviceIndex index, int priority) {
  start();
  return {guard(device_type()).getNewStream(torch_device(index), priority), index};
}

std::shared_ptr<EventImpl> TorchBackend::new_event(DeviceIndex /*index*/, bool enable_timing) {
  start();
  return torch_parts::make_event(device_type(), enable_timing);
}

std::shared_ptr<GraphImpl> TorchBackend::new_graph() {
  start();
  if (auto graph = torch_parts::make_graph(device_type())) return graph;
  fail_unsupported("create_graph", "capturing graphs",
                   "the LibTorch loaded in this process (" TORCH_VERSION
                   ") has no graph implementation for this device type");
}

bool TorchBackend::is_current_stream_capturing() const {
#if ANYACCEL_TORCH_AT_LEAST(2, 12)
  try {
    // Guards that do not implement the query return false, and hooks that do not implement
    // hasPrimaryContext() look uninitialized.
    if (torch_parts::is_capturing(device_type())) return true;
    if (!is_initialized()) return false;
    const auto stream = guard(device_type()).getStream(guard(device_type()).getDevice());
    return guard(device_type()).isStreamCapturing(stream);
  } catch (const c10::Error&) {  // device types that do not implement it cannot capture
    return false;
  }
#else
  return false;
#endif
}

}  // namespace anyaccel::sdk
