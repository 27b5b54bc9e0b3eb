// Implements torch's interface for devices, streams and events.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/headeronly/version.h>

#include "backends/sim/allocator.h"
#include "backends/sim/event.h"
#include "backends/sim/register.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

namespace {

SimEvent& event_of(void* event) { return *static_cast<SimEvent*>(event); }

struct SimGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return runtime().type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto former = getDevice();
    setDevice(device);
    return former;
  }
  c10::Device getDevice() const override { return runtime().device(current_device()); }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < deviceCount()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(runtime().devices.size());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits &= runtime().dtype_bits;
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    return to_torch(current_stream(index_of(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return to_torch(*device_at(index_of(device)).streams[0]);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return to_torch(device_at(index_of(device)).next_stream(high_priority));
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return to_torch(device_at(index_of(device)).next_stream(priority < 0));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return to_torch(exchange_stream(stream_of(stream)));
  }
  bool queryStream(const c10::Stream& stream) const override {
    if (!stream_of(stream).idle()) return false;
    if (auto* watching = observer()) watching->on_stream_synchronize(stream_of(stream));
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronize(stream_of(stream));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return &stream_of(stream);
  }
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return stream_of(stream).capture() != nullptr;
  }
#endif
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    device_at(index).synchronize();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator().recordStream(data, stream);
  }

  void destroyEvent(void* event, const c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<SimEvent*>(event);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    auto& target = stream_of(stream);
    TORCH_CHECK(index == -1 || index == stream.device_index(), "[sim] an event of device ",
                static_cast<int>(index), " cannot be recorded on device ",
                static_cast<int>(stream.device_index()));
    if (*event == nullptr) *event = new SimEvent(flag == c10::EventFlag::BACKEND_DEFAULT);
    event_of(*event).record(target);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) event_of(event).wait(stream_of(stream));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || event_of(event).query();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) event_of(event).synchronize();
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*index*/) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "[sim] both events must be recorded before their times are compared");
    return event_of(start).elapsed(event_of(end));
  }

 private:
  static int index_of(c10::Device device) {
    return device.has_index() ? device_at(device.index()).index : current_device();
  }
};

}  // namespace

void register_guard() {
  // torch keeps the pointer and never deletes it.
  c10::impl::registerDeviceGuard(runtime().type, new SimGuard);
}

}  // namespace anyaccel::backends::sim
