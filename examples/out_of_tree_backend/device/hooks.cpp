// torch's hooks for a device type: availability, current device and random numbers.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <vector>

#include "device/device.h"

namespace hostcard_backend {
namespace {

/// The generator of one device. It wraps a separate host generator.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index, at::Generator host = at::detail::createCPUGenerator())
      : GeneratorImpl(c10::Device(kDeviceType, index),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}
  static c10::DeviceType device_type() { return kDeviceType; }

  void set_current_seed(std::uint64_t seed) override { host_.set_current_seed(seed); }
  std::uint64_t current_seed() const override { return host_.current_seed(); }
  std::uint64_t seed() override { return host_.seed(); }
  void set_offset(std::uint64_t offset) override { host_.set_offset(offset); }
  std::uint64_t get_offset() const override { return host_.get_offset(); }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }
  const at::Generator& host() const { return host_; }

 private:
  Generator* clone_impl() const override { return new Generator(device().index(), host_.clone()); }
  at::Generator host_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return is_used(index); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  // torch.accelerator and DistributedDataParallel change the device through these functions.
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto former = current_device();
    set_current_device(index);
    return former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index < 0 ? current_device() : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? current_device() : index);
  }
  // No memory counts as pinned, because host memory is the device's memory.
  bool isPinnedPtr(const void* /*pointer*/) const override { return false; }
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const auto* generators = [] {
    auto* all = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < device_count(); ++i)
      all->push_back(at::make_generator<Generator>(i));
    return all;
  }();
  check_device(index);
  return (*generators)[static_cast<std::size_t>(index)];
}

at::Generator host_generator(const at::Generator& generator) {
  return static_cast<const Generator*>(generator.unsafeGetGeneratorImpl())->host();
}

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace hostcard_backend
