// Caching allocator for device memory, like torch's own on GPUs. It takes memory from the device in
// segments and splits them into blocks. Later work on the same stream can reuse a freed block
// immediately.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

/// 0 is the default pool; others belong to graphs.
using PoolId = std::uint64_t;

/// With zones, at least this many unused bytes precede and follow each block.
constexpr std::size_t kZone = 512;

struct Segment;

/// A range of a segment, in use or free.
struct Block {
  Segment* segment = nullptr;
  char* address = nullptr;
  std::size_t offset = 0;  ///< sizes of all blocks that precede it in the segment
  std::size_t size = 0;
  std::size_t requested = 0;
  SimStream* stream = nullptr;
  bool allocated = false;
  Block *before = nullptr, *after = nullptr;  ///< neighbors in the segment
  std::vector<SimStream*> users;              ///< streams that were passed to record_stream()
  /// Index of the counter of its uses by other processes (ipc.h); -1 if it was never shared.
  int shared = -1;
  int shared_by = -1;  ///< the process that shared it, which may be the parent
};

struct Segment {
  char* address = nullptr;
  std::size_t size = 0;
  SimStream* stream = nullptr;
  PoolId pool = 0;
  bool small = false;
  Block* first = nullptr;
};

/// Memory of one device. Thread-safe.
class DeviceMemory {
 public:
  /// `zones`: leave unused addresses between blocks. Sizes, statistics and the limit stay the same.
  DeviceMemory(Device& device, std::size_t limit, bool zones);
  ~DeviceMemory();

  /// Throws c10::OutOfMemoryError if the memory still does not fit after the cache is released.
  Block* allocate(std::size_t bytes, SimStream& stream);
  void free(Block* block) noexcept;
  void record_stream(Block* block, SimStream& stream);
  void empty_cache();
  /// Releases the blocks that were freed while other processes used them, once those processes
  /// have released them.
  void collect_shared() noexcept;

  /// The address and size of the allocation that contains `address`; nullopt for free memory, for
  /// other processes' memory, and without zones.
  std::optional<std::pair<char*, std::size_t>> allocation_with_zones(const void* address);

  /// Reserves an unused address range, into which memory from another process can be mapped.
  char* take_addresses(std::size_t bytes);
  /// Stream workers call this, so it does not acquire this object's lock.
  void give_addresses_back(char* address) noexcept;

  /// Call this when no graph uses `pool` anymore. The pool's memory is released as soon as no
  /// tensor uses it.
  void release_pool(PoolId pool) noexcept;

  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();
  std::size_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  /// If the new limit is below the current usage, nothing is freed.
  void set_limit(std::size_t limit) noexcept { limit_ = limit; }
  /// Bytes reserved from the device.
  std::size_t reserved();

  /// Locks to hold during fork(): first this one, then inner_lock_for_fork().
  std::mutex& lock_for_fork() noexcept { return mutex_; }
  std::mutex& inner_lock_for_fork() noexcept { return given_back_mutex_; }

 private:
  struct Fits {
    bool operator()(const Block* a, const Block* b) const noexcept;
  };
  using FreeBlocks = std::set<Block*, Fits>;
  struct Waiting {
    Block* block;
    std::vector<std::pair<SimStream*, Ticket>> tickets;
  };

  FreeBlocks& free_blocks(PoolId pool, bool small) { return free_[{pool, small}]; }
  /// Distance from the segment's address to the block with this offset. The distances of two blocks
  /// differ by at least kZone more than their offsets.
  std::size_t distance(std::size_t offset, bool small) const noexcept;
  std::size_t addresses_of(const Segment& segment) const noexcept;
  Block* find(std::size_t size, SimStream& stream, PoolId pool);
  /// Returns null if there is no free range of `bytes` bytes.
  char* find_addresses(std::size_t bytes);
  void collect_given_back();
  Block* new_segment(std::size_t size, SimStream& stream, PoolId pool);
  Block* take(Block* block, std::size_t size, std::size_t requested);
  void put_back(Block* block);
  void merge(Block* block, Block* neighbour, FreeBlocks& blocks);
  void collect_waiting();
  void release_unused(PoolId pool);
  [[noreturn]] void out_of_memory(std::size_t bytes, const char* why);
  void count(const Segment& segment, std::int64_t allocations, std::int64_t bytes,
             std::int64_t requested);

  Device& device_;
  std::atomic<std::size_t> limit_;
  const bool zones_;
  std::mutex mutex_;
  std::map<std::pair<PoolId, bool>, FreeBlocks> free_;
  std::set<PoolId> released_pools_;
  std::list<Waiting> waiting_;
  std::vector<Block*> used_elsewhere_;  ///< freed here, but still in use by other processes
  std::map<char*, std::unique_ptr<Segment>> segments_;  ///< keyed by address
  std::mutex given_back_mutex_;
  std::vector<char*> given_back_;  ///< keys of `segments_` that give_addresses_back() received
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

class SimAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DataPtr allocate_on(int device, std::size_t bytes);
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override;
};

/// Returns the block for memory from SimAllocator, or null for other memory.
Block* block_of(const c10::DataPtr& data) noexcept;

/// The process-wide allocator; never destroyed.
SimAllocator& allocator() noexcept;

}  // namespace anyaccel::backends::sim
