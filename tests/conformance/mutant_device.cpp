// Defects in code that torch calls directly, bypassing the backend interface: the device guard and
// the kernels of the simulated device.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_copy_from.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/strides.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include "conformance/mutant_parts.h"

namespace anyaccel::test {

namespace {

using Guard = c10::impl::DeviceGuardImplInterface;

/// Forwards to the device's guard, but reports all streams as idle.
class GuardOfIdleStreams final : public Guard {
 public:
  explicit GuardOfIdleStreams(const Guard& inner) : inner_(inner) {}
  c10::DeviceType type() const override { return inner_.type(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    return inner_.exchangeDevice(device);
  }
  c10::Device getDevice() const override { return inner_.getDevice(); }
  void setDevice(c10::Device device) const override { inner_.setDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    inner_.uncheckedSetDevice(device);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return inner_.deviceCount(); }
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    return inner_.getDeviceCapability(device);
  }
  c10::Stream getStream(c10::Device device) const override { return inner_.getStream(device); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return inner_.getDefaultStream(device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return inner_.getStreamFromGlobalPool(device, high_priority);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return inner_.getNewStream(device, priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return inner_.exchangeStream(stream);
  }
  bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    inner_.synchronizeStream(stream);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return inner_.getStreamNativeHandle(stream);
  }
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return inner_.isStreamCapturing(stream);
  }
#endif
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    inner_.synchronizeDevice(index);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    inner_.recordDataPtrOnStream(data, stream);
  }
  void destroyEvent(void* event, const c10::DeviceIndex index) const noexcept override {
    inner_.destroyEvent(event, index);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    inner_.record(event, stream, index, flag);
  }
  void block(void* event, const c10::Stream& stream) const override { inner_.block(event, stream); }
  bool queryEvent(void* event) const override { return inner_.queryEvent(event); }
  void synchronizeEvent(void* event) const override { inner_.synchronizeEvent(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex index) const override {
    return inner_.elapsedTime(start, end, index);
  }

 private:
  const Guard& inner_;
};

at::Tensor& copy_without_strides(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  const bool transposed =
      from.device().is_cpu() && from.is_non_overlapping_and_dense() && !from.is_contiguous();
  at::_copy_from(
      transposed ? from.as_strided(from.sizes(), c10::contiguous_strides(from.sizes())) : from,
      self, non_blocking);
  return self;
}

at::Tensor& copy_without_waiting(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  at::_copy_from(from, self, non_blocking || self.device().is_cpu());
  return self;
}

void record_nothing(at::Tensor& /*self*/, at::Stream /*stream*/) {}

}  // namespace

void break_device(const std::string& defect, c10::DeviceType type) {
  if (defect == "stream_query_always_true")
    c10::impl::registerDeviceGuard(type,
                                   new GuardOfIdleStreams(*c10::impl::getDeviceGuardImpl(type)));
  if (type != c10::DeviceType::PrivateUse1) return;
  static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  if (defect == "copy_loses_strides") library->impl("copy_", copy_without_strides);
  if (defect == "copy_to_pinned_never_waits") library->impl("copy_", copy_without_waiting);
  if (defect == "record_stream_ignored") library->impl("record_stream", record_nothing);
}

}  // namespace anyaccel::test
