// Device memory: a caching allocator over clSVMAlloc. Freed blocks are kept per device and stream,
// and reused by later allocations on the same stream, whose work runs after all work that used the
// block. A block that other streams used (record_stream) is reused after their work is complete.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "device/runtime.h"

namespace ocl_backend {
namespace {

using Stats = c10::CachingDeviceAllocator::DeviceStats;

constexpr std::size_t kAlignment = 512;

struct Block {
  void* memory = nullptr;
  std::size_t bytes = 0;   ///< size of the block
  std::size_t wanted = 0;  ///< size of the tensor
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;         ///< the stream that allocated the block
  std::vector<c10::Stream> others;  ///< may belong to other devices
};

struct Pool {
  Stats stats;
  std::map<std::pair<c10::StreamId, std::size_t>, std::vector<std::unique_ptr<Block>>> free;
  /// Freed blocks that other streams may still use.
  std::list<std::pair<std::unique_ptr<Block>, std::vector<cl_event>>> waiting;
};

/// Rounds up the size of a cached block: to a multiple of 512 bytes, or, above 64 KiB, to a
/// multiple of 1/8 of the power of two below it.
std::size_t rounded(std::size_t bytes) {
  std::size_t unit = kAlignment;
  while (unit * 128 < bytes) unit *= 2;
  if (unit > kAlignment) unit *= 8;
  return std::max((bytes + unit - 1) / unit * unit, kAlignment);
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const auto device = current_device();
    const auto stream = current_stream(device).id();
    used_[static_cast<std::size_t>(device)] = true;
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(kDeviceType, device)};
    const std::lock_guard lock(mutex_);
    auto& pool = of(device);
    auto block = reuse(pool, stream, rounded(bytes));
    if (block == nullptr) block = fresh(pool, device, stream, rounded(bytes), bytes);
    block->wanted = bytes;
    pool.stats.allocation[0].increase(1);
    pool.stats.allocated_bytes[0].increase(bytes);
    auto* raw = block.release();
    return {raw->memory, raw, &release, c10::Device(kDeviceType, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    auto& queue = current_queue(current_device());
    check(queue.enqueue([&](cl_event* event) {
      return clEnqueueSVMMemcpy(queue.handle, CL_FALSE, to, from, bytes, 0, nullptr, event);
    }),
          "clEnqueueSVMMemcpy");
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      if (!is_used(device)) continue;
      // Under the lock, so that no block with pending work is freed after the wait.
      const std::lock_guard lock(mutex_);
      drain_device(device);
      drop_cache(of(device));
    }
  }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    if (pointer.get_deleter() != &release || pointer.get_context() == nullptr) return;
    const std::lock_guard lock(mutex_);
    auto& block = *static_cast<Block*>(pointer.get_context());
    const bool own = stream.device_index() == block.device && stream.id() == block.stream;
    if (!own && std::find(block.others.begin(), block.others.end(), stream) == block.others.end())
      block.others.push_back(stream);
  }
  Stats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    return of(device).stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    auto& stats = of(device).stats;
    for (auto* array : {&stats.allocation, &stats.allocated_bytes, &stats.reserved_bytes})
      (*array)[0].reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    auto& stats = of(device).stats;
    for (auto* array : {&stats.allocation, &stats.allocated_bytes, &stats.reserved_bytes})
      (*array)[0].reset_peak();
  }
  bool is_used(c10::DeviceIndex device) const {
    check_device(device);
    return used_[static_cast<std::size_t>(device)];
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    const auto total = device_info(device).memory;
    const auto reserved = static_cast<std::size_t>(of(device).stats.reserved_bytes[0].current);
    return {total - std::min(total, reserved), total};
  }

 private:
  Pool& of(c10::DeviceIndex device) {
    check_device(device);
    return pools_[static_cast<std::size_t>(device)];
  }

  /// Moves freed blocks to the free list once no stream uses them.
  static void collect(Pool& pool) {
    for (auto entry = pool.waiting.begin(); entry != pool.waiting.end();) {
      auto& [block, events] = *entry;
      if (!std::all_of(events.begin(), events.end(), is_complete)) {
        ++entry;
        continue;
      }
      for (auto* event : events) clReleaseEvent(event);
      keep(pool, std::move(block));
      entry = pool.waiting.erase(entry);
    }
  }
  static void keep(Pool& pool, std::unique_ptr<Block> block) {
    pool.free[{block->stream, block->bytes}].push_back(std::move(block));
  }

  static std::unique_ptr<Block> reuse(Pool& pool, c10::StreamId stream, std::size_t bytes) {
    collect(pool);
    const auto found = pool.free.find({stream, bytes});
    if (found == pool.free.end() || found->second.empty()) return nullptr;
    auto block = std::move(found->second.back());
    found->second.pop_back();
    return block;
  }

  static std::unique_ptr<Block> fresh(Pool& pool, c10::DeviceIndex device, c10::StreamId stream,
                                      std::size_t bytes, std::size_t wanted) {
    const auto total = device_info(device).memory;
    void* memory = nullptr;
    for (const bool last : {false, true}) {
      const auto reserved = static_cast<std::size_t>(pool.stats.reserved_bytes[0].current);
      if (bytes <= total && reserved <= total - bytes)
        memory = clSVMAlloc(context(), CL_MEM_READ_WRITE, bytes, 0);
      if (memory != nullptr || last) break;
      drain_device(device);
      drop_cache(pool);
    }
    if (memory == nullptr) ++pool.stats.num_ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr, "ocl: device ", static_cast<int>(device),
                     " cannot allocate ", wanted, " bytes; ", pool.stats.reserved_bytes[0].current,
                     " of ", total, " bytes are in use");
    pool.stats.reserved_bytes[0].increase(bytes);
    auto block = std::make_unique<Block>();
    block->memory = memory;
    block->bytes = bytes;
    block->device = device;
    block->stream = stream;
    return block;
  }

  /// Returns cached blocks to the driver. The device is idle.
  static void drop_cache(Pool& pool) {
    collect(pool);
    for (auto& [key, blocks] : pool.free)
      for (auto& block : blocks) {
        clSVMFree(context(), block->memory);
        pool.stats.reserved_bytes[0].decrease(block->bytes);
      }
    pool.free.clear();
  }

  void give_back(std::unique_ptr<Block> block) {
    const std::lock_guard lock(mutex_);
    auto& pool = of(block->device);
    pool.stats.allocation[0].decrease(1);
    pool.stats.allocated_bytes[0].decrease(block->wanted);
    if (block->others.empty()) return keep(pool, std::move(block));
    std::vector<cl_event> events;
    for (const auto stream : block->others) events.push_back(queue_of(stream).mark());
    block->others.clear();
    pool.waiting.emplace_back(std::move(block), std::move(events));
  }

  static void release(void* context) {
    if (context == nullptr) return;
    // A deleter must not throw. After an error, it is unknown whether a stream still uses the
    // memory, so it is leaked.
    try {
      static_cast<Allocator&>(allocator())
          .give_back(std::unique_ptr<Block>(static_cast<Block*>(context)));
    } catch (const std::exception& error) {
      const std::string_view what = error.what();
      std::fprintf(stderr, "ocl: freed memory is leaked: %.*s\n",
                   static_cast<int>(std::min(what.size(), what.find('\n'))), what.data());
    }
  }

  std::mutex mutex_;
  std::array<Pool, 128> pools_;
  std::array<std::atomic<bool>, 128> used_{};
};

Allocator& own_allocator() {
  static auto* instance = new Allocator;  // tensors may outlive static destruction
  return *instance;
}

}  // namespace

c10::DeviceAllocator& allocator() { return own_allocator(); }

bool is_used(c10::DeviceIndex index) { return own_allocator().is_used(index); }

}  // namespace ocl_backend
