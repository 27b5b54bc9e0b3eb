// Devices, streams and events. Work is complete when a call returns, so a stream is only a number
// and an event only a timestamp.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

#include "device/device.h"

namespace hostcard_backend {
namespace {

thread_local c10::DeviceIndex this_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> this_stream{};

using Time = std::chrono::steady_clock::time_point;

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::Device getDevice() const override { return {kDeviceType, this_device}; }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    this_device = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = getDevice();
    setDevice(device);
    return old;
  }

  c10::Stream getStream(c10::Device device) const override {
    return make(of(device), this_stream[static_cast<std::size_t>(of(device))]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return make(of(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    static std::atomic<c10::StreamId> next{1};
    return make(of(device), next++);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = getStream(stream.device());
    this_stream[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return old;
  }
  void* getStreamNativeHandle(c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& /*stream*/) const override {}
  void synchronizeDevice(c10::DeviceIndex index) const override { check_device(index); }

  void record(void** event, const c10::Stream& /*stream*/, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Time;
    *static_cast<Time*>(*event) = std::chrono::steady_clock::now();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<Time*>(event);
  }
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  void synchronizeEvent(void* /*event*/) const override {}
  double elapsedTime(void* begin, void* end, c10::DeviceIndex /*index*/) const override {
    return std::chrono::duration<double, std::milli>(*static_cast<Time*>(end) -
                                                     *static_cast<Time*>(begin))
        .count();
  }
  // C++ programs call this function for memory that another stream uses; its default does nothing.
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    allocator().recordStream(memory, stream);
  }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override { return {}; }

 private:
  static c10::DeviceIndex of(c10::Device device) {
    if (device.index() < 0) return this_device;
    check_device(device.index());
    return device.index();
  }
  static c10::Stream make(c10::DeviceIndex index, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index), id);
  }
};

}  // namespace

c10::DeviceIndex device_count() noexcept { return 2; }

c10::DeviceIndex current_device() { return this_device; }

void set_current_device(c10::DeviceIndex index) {
  check_device(index);
  this_device = index;
}

void check_device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < device_count(), "hostcard has devices 0 to ",
              device_count() - 1, ", got ", index);
}

void register_guard() {
  static c10::impl::DeviceGuardImplRegistrar registrar(kDeviceType, new Guard);
}

void install_device(const std::string& name) {
  static std::once_flag once;
  std::call_once(once, [&] {
    c10::register_privateuse1_backend(name);
    register_guard();
    c10::SetAllocator(kDeviceType, &allocator(), /*priority=*/255);
    register_hooks();
    register_fallback();
    register_kernels();
    register_autocast();
  });
}

}  // namespace hostcard_backend
