// Defects in what torch itself asks of a device type. The simulated device registers its hooks by this function of torch's, which
// the test program defines first.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace anyaccel::test {

namespace {

class MutantHooks final : public at::PrivateUse1HooksInterface {
 public:
  MutantHooks(at::PrivateUse1HooksInterface* inner, std::string defect) : inner_(inner), defect_(std::move(defect)) {}
  void init() const override { inner_->init(); }
  bool isBuilt() const override { return inner_->isBuilt(); }
  bool isAvailable() const override { return inner_->isAvailable(); }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return inner_->hasPrimaryContext(index); }
  c10::DeviceIndex deviceCount() const override { return inner_->deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { inner_->setCurrentDevice(index); }
  c10::DeviceIndex getCurrentDevice() const override { return inner_->getCurrentDevice(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto former = inner_->exchangeDevice(index);
    return is("torch_exchange_forgets_the_former") ? index : former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return is("torch_exchange_back_ignored") ? inner_->getCurrentDevice() : inner_->maybeExchangeDevice(index);
  }
  bool isPinnedPtr(const void* address) const override {
    return is("torch_pins_everything") || inner_->isPinnedPtr(address);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return inner_->getPinnedMemoryAllocator(); }
  c10::Device getDeviceFromPtr(void* address) const override { return inner_->getDeviceFromPtr(address); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return inner_->getDefaultGenerator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return inner_->getNewGenerator(index); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    inner_->resizePrivateUse1Bytes(storage, bytes);
  }

 private:
  bool is(const char* defect) const noexcept { return defect_ == defect; }
  at::PrivateUse1HooksInterface* inner_;
  const std::string defect_;
};

}  // namespace

}  // namespace anyaccel::test

// The loader takes the program's definition for calls from all libraries.
void at::RegisterPrivateUse1HooksInterface(at::PrivateUse1HooksInterface* hooks) {
  using Register = void(at::PrivateUse1HooksInterface*);
  auto* next = reinterpret_cast<Register*>(
      ::dlsym(RTLD_NEXT, "_ZN2at33RegisterPrivateUse1HooksInterfaceEPNS_25PrivateUse1HooksInterfaceE"));
  if (next == nullptr) std::abort();
  const char* defect = std::getenv("MUTANT");
  next(new anyaccel::test::MutantHooks(hooks, defect == nullptr ? "" : defect));
}
