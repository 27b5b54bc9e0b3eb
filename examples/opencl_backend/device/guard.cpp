// Devices, streams and events: a stream is a command queue, an event is a marker in a queue.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <mutex>

#include "device/device.h"
#include "device/runtime.h"

namespace ocl_backend {
namespace {

thread_local c10::DeviceIndex this_device = 0;
thread_local std::array<c10::StreamId, 128> this_stream{};

c10::Stream make(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index), id);
}

cl_ulong end_time(cl_event event) {
  cl_ulong time = 0;
  check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr),
        "clGetEventProfilingInfo");
  return time;
}

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

  c10::Stream getStream(c10::Device device) const override { return current_stream(of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override { return make(of(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return make(of(device), new_stream_id(of(device)));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = getStream(stream.device());
    this_stream[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return old;
  }
  void* getStreamNativeHandle(c10::Stream stream) const override { return queue_of(stream).handle; }
  bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override { queue_of(stream).finish(); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    finish_device(index < 0 ? this_device : index);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    if (*event != nullptr) clReleaseEvent(static_cast<cl_event>(*event));
    *event = nullptr;
    *event = queue_of(stream).mark();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    if (event != nullptr) clReleaseEvent(static_cast<cl_event>(event));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) queue_of(stream).wait(static_cast<cl_event>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || is_complete(static_cast<cl_event>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) wait_for(static_cast<cl_event>(event));
  }
  double elapsedTime(void* begin, void* end, c10::DeviceIndex /*index*/) const override {
    const auto from = end_time(static_cast<cl_event>(begin));
    const auto to = end_time(static_cast<cl_event>(end));
    return static_cast<double>(static_cast<cl_long>(to - from)) / 1e6;
  }
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
};

}  // namespace

c10::DeviceIndex current_device() { return this_device; }

c10::Stream current_stream(c10::DeviceIndex index) {
  return make(index, this_stream[static_cast<std::size_t>(index)]);
}

Queue& current_queue(c10::DeviceIndex index) {
  return queue_of(current_stream(index < 0 ? this_device : index));
}

void set_current_device(c10::DeviceIndex index) {
  check_device(index);
  this_device = index;
}

void check_device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < device_count(), "ocl has ", static_cast<int>(device_count()),
              " device(s), got device ", static_cast<int>(index));
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

}  // namespace ocl_backend
