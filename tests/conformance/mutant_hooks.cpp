// Defects in torch's hooks for a device type. The simulated device registers its hooks with a torch
// function, which the test program overrides.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace anyaccel::test {

namespace {

/// An allocator that reuses pinned memory as soon as its tensor is freed, even if a copy still uses
/// it.
class HastyPinnedAllocator final : public at::HostAllocator {
 public:
  explicit HastyPinnedAllocator(at::HostAllocator& inner) : inner_(inner) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return inner_.allocate(bytes);
    const std::lock_guard lock(mutex_);
    auto& free = free_[bytes];
    if (free.empty())
      free.push_back(std::make_unique<Block>(Block{this, bytes, inner_.allocate(bytes)}));
    auto* block = free.back().release();
    free.pop_back();
    return {block->memory.get(), block, &give_back, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_.copy_data(to, from, bytes);
  }
  bool record_event(void* address, void* /*context*/, c10::Stream stream) override {
    return inner_.record_event(address, nullptr, stream);
  }
  void empty_cache() override { inner_.empty_cache(); }
  at::HostStats get_stats() override { return inner_.get_stats(); }
  void reset_accumulated_stats() override { inner_.reset_accumulated_stats(); }
  void reset_peak_stats() override { inner_.reset_peak_stats(); }

 private:
  struct Block {
    HastyPinnedAllocator* owner;
    std::size_t bytes;
    c10::DataPtr memory;
  };
  static void give_back(void* context) {
    std::unique_ptr<Block> block(static_cast<Block*>(context));
    auto& owner = *block->owner;
    const std::lock_guard lock(owner.mutex_);
    owner.free_[block->bytes].push_back(std::move(block));
  }
  at::HostAllocator& inner_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::unique_ptr<Block>>> free_;
};

class MutantHooks final : public at::PrivateUse1HooksInterface {
 public:
  MutantHooks(at::PrivateUse1HooksInterface* inner, std::string defect)
      : inner_(inner), defect_(std::move(defect)) {}
  void init() const override { inner_->init(); }
  bool isBuilt() const override { return inner_->isBuilt(); }
  bool isAvailable() const override { return inner_->isAvailable(); }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return inner_->hasPrimaryContext(index);
  }
  c10::DeviceIndex deviceCount() const override { return inner_->deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { inner_->setCurrentDevice(index); }
  c10::DeviceIndex getCurrentDevice() const override { return inner_->getCurrentDevice(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto former = inner_->exchangeDevice(index);
    return is("torch_exchange_returns_new_device") ? index : former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return is("torch_exchange_back_ignored") ? inner_->getCurrentDevice()
                                             : inner_->maybeExchangeDevice(index);
  }
  bool isPinnedPtr(const void* address) const override {
    return is("torch_pins_everything") || inner_->isPinnedPtr(address);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    auto* allocator = inner_->getPinnedMemoryAllocator();
    if (!is("pinned_memory_reused_too_early")) return allocator;
    static auto* hasty = new HastyPinnedAllocator(dynamic_cast<at::HostAllocator&>(*allocator));
    return hasty;
  }
  c10::Device getDeviceFromPtr(void* address) const override {
    return inner_->getDeviceFromPtr(address);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return inner_->getDefaultGenerator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return inner_->getNewGenerator(index);
  }
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

// The loader resolves calls from all libraries to this definition in the executable.
void at::RegisterPrivateUse1HooksInterface(at::PrivateUse1HooksInterface* hooks) {
  using Register = void(at::PrivateUse1HooksInterface*);
  auto* next = reinterpret_cast<Register*>(::dlsym(
      RTLD_NEXT, "_ZN2at33RegisterPrivateUse1HooksInterfaceEPNS_25PrivateUse1HooksInterfaceE"));
  if (next == nullptr) std::abort();
  const char* defect = std::getenv("MUTANT");
  next(new anyaccel::test::MutantHooks(hooks, defect == nullptr ? "" : defect));
}
