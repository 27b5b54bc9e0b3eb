// A backend without a device, for tests of Accelerator and the registry.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <string>

#include "anyaccel/sdk/backend.h"

namespace anyaccel::test {

inline sdk::Traits mock_traits(const std::string& name, int priority = 1000) {
  sdk::Traits traits;
  traits.name = name;
  traits.class_name = "Mock_Accelerator";
  traits.device_type = "cpu";
  traits.communication_backend = "gloo";
  traits.compile_backends = {"inductor", "eager"};
  traits.indexed_names = false;
  traits.priority = priority;
  return traits;
}

/// A backend with `devices` devices that implements only the pure virtual functions of Backend and
/// inherits the default behavior of all others.
class MockBackend : public sdk::Backend {
 public:
  explicit MockBackend(sdk::Traits traits, int devices = 2)
      : Backend(std::move(traits)), devices_(devices) {}
  DeviceIndex device_count() const noexcept override { return devices_; }
  DeviceIndex current_device() const override { return current_; }
  void set_device(DeviceIndex index) override { current_ = index; }
  void synchronize(DeviceIndex index) override { synchronized_ = index; }
  at::Generator default_generator(DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  Stream current_stream(DeviceIndex index) const override {
    return {c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCPU), stream_), index};
  }
  void set_stream(const Stream& stream) override { stream_ = stream.id(); }
  bool is_initialized() const noexcept override { return initialized_; }

  int devices_;
  DeviceIndex current_ = 0;
  DeviceIndex synchronized_ = -1;
  c10::StreamId stream_ = 0;
  bool initialized_ = true;
};

}  // namespace anyaccel::test
