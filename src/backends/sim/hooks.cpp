// Implements torch's hooks for device types. torch has one interface per type, and one class
// template implements them all.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/detail/MTIAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <torch/headeronly/version.h>

#include <functional>

#include "anyaccel/error.h"
#include "backends/sim/allocator.h"
#include "backends/sim/generator.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/pinned.h"
#include "backends/sim/register.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

namespace {

template <typename Interface>
struct SimHooks : Interface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    for (const auto& stream : device_at(index).streams)
      if (stream->last() != 0) return true;
    return device_at(index).memory->reserved() != 0;
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(runtime().devices.size());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(sim::current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto former = getCurrentDevice();
    set_current_device(index);
    return former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchangeDevice(index);
  }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  c10::Device getDeviceFromPtr(void* address) const override {
    const int index = memory_map.device_of(address);
    TORCH_CHECK(index >= 0, "[sim] the address is not in device memory");
    return runtime().device(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<SimGenerator>(index < 0 ? sim::current_device() : index);
  }
};

struct PrivateUse1 final : SimHooks<at::PrivateUse1HooksInterface> {
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

struct Hpu final : SimHooks<at::HPUHooksInterface> {
  bool hasHPU() const override { return true; }
};

struct Xpu final : SimHooks<at::XPUHooksInterface> {
  bool hasXPU() const override { return true; }
  std::string showConfig() const override { return "simulated"; }
  std::int32_t getGlobalIdxFromDevice(const at::Device& device) const override {
    return device.index();
  }
  c10::DeviceIndex getNumGPUs() const override { return deviceCount(); }
  c10::DeviceIndex current_device() const override { return getCurrentDevice(); }
  void deviceSynchronize(c10::DeviceIndex index) const override { device_at(index).synchronize(); }
};

struct Mtia final : SimHooks<at::MTIAHooksInterface> {
  bool hasMTIA() const override { return true; }
  bool isAvailable() const override { return true; }
  std::string showConfig() const override { return "simulated"; }
  c10::DeviceIndex getDeviceCount() const override { return deviceCount(); }
  void deviceSynchronize(c10::DeviceIndex index) const override { device_at(index).synchronize(); }
  c10::Stream getCurrentStream(c10::DeviceIndex index) const override {
    return to_torch(current_stream(index));
  }
  c10::Stream getDefaultStream(c10::DeviceIndex index) const override {
    return to_torch(*device_at(index).streams[0]);
  }
  void setCurrentStream(const c10::Stream& stream) const override {
    exchange_stream(stream_of(stream));
  }
  void emptyCache() const override { allocator().emptyCache(); }
  void resetPeakMemoryStats(c10::DeviceIndex index) const override {
    allocator().resetPeakStats(index);
  }
};

struct Mps final : SimHooks<at::MPSHooksInterface> {
  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned /*major*/, unsigned /*minor*/) const override { return true; }
  at::Allocator* getMPSDeviceAllocator() const override { return &allocator(); }
  void deviceSynchronize() const override { device_at(0).synchronize(); }
  void commitStream() const override {}
  void emptyCache() const override { allocator().emptyCache(); }
  std::size_t getCurrentAllocatedMemory() const override {
    return static_cast<std::size_t>(device_at(0).memory->stats().allocated_bytes[0].current);
  }
  std::size_t getDriverAllocatedMemory() const override { return device_at(0).memory->reserved(); }
  std::size_t getRecommendedMaxMemory() const override { return device_at(0).memory->limit(); }
};

struct Cuda final : SimHooks<at::CUDAHooksInterface> {
  bool hasCUDA() const override { return true; }
  c10::DeviceIndex current_device() const override { return getCurrentDevice(); }
  at::Allocator* getCUDADeviceAllocator() const override { return &allocator(); }
  int getNumGPUs() const override { return deviceCount(); }
  void deviceSynchronize(c10::DeviceIndex index) const override { device_at(index).synchronize(); }
};

template <typename Hooks, typename Registry>
std::function<void(const std::string&)> in_registry(Registry* registry) {
  return [registry](const std::string& key) {
    // The creator functions take an argument in some versions of torch and for some types.
    registry->Register(key, [](auto&&...) { return std::make_unique<Hooks>(); });
  };
}

std::function<void()> hooks_of(c10::DeviceType type) {
  // torch's keys are the types' upper-case names followed by "Hooks".
  const std::string key = c10::DeviceTypeName(type, /*lower_case=*/false) + "Hooks";
  const std::pair<const char*, std::function<void(const std::string&)>> known[] = {
      {"HPUHooks", in_registry<Hpu>(at::HPUHooksRegistry())},
      {"XPUHooks", in_registry<Xpu>(at::XPUHooksRegistry())},
      {"MTIAHooks", in_registry<Mtia>(at::MTIAHooksRegistry())},
      {"MPSHooks", in_registry<Mps>(at::MPSHooksRegistry())},
      {"CUDAHooks", in_registry<Cuda>(at::CUDAHooksRegistry())}};
  for (const auto& [name, put] : known)
    if (key == name)
      return [put = put, key] { put(key); };  // clang 14 cannot capture structured bindings
  throw Error(
      ErrorCode::invalid_argument, "SIM_STANDS_IN_FOR",
      {.what = "torch has no hooks for this device type, so the simulator cannot stand in for it",
       .got = "'" + c10::DeviceTypeName(type, true) + "'",
       .want = "a device type that this build supports, or a new name for PrivateUse1"});
}

}  // namespace

void need_hooks(c10::DeviceType type) { hooks_of(type); }

void register_hooks() {
  if (runtime().type == c10::DeviceType::PrivateUse1)
    at::RegisterPrivateUse1HooksInterface(new PrivateUse1);
  else
    hooks_of(runtime().type)();
}

}  // namespace anyaccel::backends::sim
