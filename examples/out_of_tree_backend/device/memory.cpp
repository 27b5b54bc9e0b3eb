// Device memory: host memory with statistics and a size limit per device.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"

namespace hostcard_backend {
namespace {

using Stats = c10::CachingDeviceAllocator::DeviceStats;

struct Block {
  void* memory;
  std::size_t bytes;
  c10::DeviceIndex device;
};

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 64;
    const auto device = current_device();
    used_[static_cast<std::size_t>(device)] = true;
    auto block = std::make_unique<Block>(Block{nullptr, bytes, device});
    count(*block, +1);
    block->memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (block->memory == nullptr) {
      count(*block, -1);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "hostcard: the host cannot allocate ", bytes,
                       " bytes");
    }
    auto* raw = block.release();
    return {raw->memory, raw, &release, c10::Device(kDeviceType, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool initialized() override { return true; }
  // There is no cache: freed memory is returned to the system immediately.
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  // A no-op, because a stream has no pending work. For an asynchronous device, remember the stream
  // and its device: the memory must not be reused until the work that is queued on it at release()
  // is complete. release() must not throw, because it is a deleter.
  void recordStream(const c10::DataPtr& /*pointer*/, c10::Stream /*stream*/) override {}
  Stats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    return of(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    for (auto* array :
         {&of(device).allocation, &of(device).allocated_bytes, &of(device).reserved_bytes})
      (*array)[0].reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    for (auto* array :
         {&of(device).allocation, &of(device).allocated_bytes, &of(device).reserved_bytes})
      (*array)[0].reset_peak();
  }
  bool is_used(c10::DeviceIndex device) const {
    check_device(device);
    return used_[static_cast<std::size_t>(device)];
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    return {kDeviceMemory - static_cast<std::size_t>(of(device).allocated_bytes[0].current),
            kDeviceMemory};
  }

 private:
  Stats& of(c10::DeviceIndex device) {
    check_device(device);
    return stats_[static_cast<std::size_t>(device)];
  }
  void count(const Block& block, int sign) {
    const std::lock_guard lock(mutex_);
    auto& stats = of(block.device);
    if (sign > 0) {
      const auto free = kDeviceMemory - static_cast<std::size_t>(stats.allocated_bytes[0].current);
      if (block.bytes > free) ++stats.num_ooms;
      TORCH_CHECK_WITH(OutOfMemoryError, block.bytes <= free, "hostcard: device ", block.device,
                       " has ", free, " bytes left, want ", block.bytes);
      stats.allocation[0].increase(1);
      stats.allocated_bytes[0].increase(block.bytes);
      stats.reserved_bytes[0].increase(block.bytes);
    } else {
      stats.allocation[0].decrease(1);
      stats.allocated_bytes[0].decrease(block.bytes);
      stats.reserved_bytes[0].decrease(block.bytes);
    }
  }
  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    static_cast<Allocator&>(allocator()).count(*block, -1);
    std::free(block->memory);
  }

  std::mutex mutex_;
  std::array<Stats, kMaxDevices> stats_;
  std::array<std::atomic<bool>, kMaxDevices> used_{};
};

Allocator& own_allocator() {
  static auto* instance = new Allocator;  // tensors may outlive static destruction
  return *instance;
}

}  // namespace

c10::DeviceAllocator& allocator() { return own_allocator(); }

bool is_used(c10::DeviceIndex index) { return own_allocator().is_used(index); }

}  // namespace hostcard_backend
