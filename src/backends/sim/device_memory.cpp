// Manages the blocks and segments of one device.
#include <c10/util/Exception.h>

#include <algorithm>

#include "backends/sim/allocator.h"
#include "backends/sim/device.h"
#include "backends/sim/graph.h"
#include "backends/sim/ipc.h"
#include "backends/sim/memory_map.h"

namespace anyaccel::backends::sim {

namespace {

// The sizes are those of torch's allocators on GPUs, so that programs see the same fragmentation.
constexpr std::size_t kUnit = 512;
constexpr std::size_t kSmall = 1 << 20;
constexpr std::size_t kSmallSegment = 2 << 20;
constexpr std::size_t kLargeSegment = 20 << 20;
constexpr std::size_t kOwnSegment = 10 << 20;
constexpr std::size_t kSegmentUnit = 2 << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

void add(c10::CachingAllocator::StatArray& array, bool small, std::int64_t amount) {
  using c10::CachingAllocator::StatType;
  for (const auto type :
       {StatType::AGGREGATE, small ? StatType::SMALL_POOL : StatType::LARGE_POOL}) {
    auto& stat = array[static_cast<std::size_t>(type)];
    if (amount >= 0)
      stat.increase(static_cast<std::size_t>(amount));
    else
      stat.decrease(static_cast<std::size_t>(-amount));
  }
}

template <typename Function>
void for_all(c10::CachingDeviceAllocator::DeviceStats& stats, Function function) {
  for (auto* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split,
                      &stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                      &stats.inactive_split_bytes, &stats.requested_bytes})
    for (auto& stat : *array) function(stat);
}

std::string in_mib(std::size_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

bool DeviceMemory::Fits::operator()(const Block* a, const Block* b) const noexcept {
  if (a->stream != b->stream) return a->stream < b->stream;
  if (a->size != b->size) return a->size < b->size;
  return a->address < b->address;
}

DeviceMemory::DeviceMemory(Device& device, std::size_t limit, bool zones)
    : device_(device), limit_(limit), zones_(zones) {}
DeviceMemory::~DeviceMemory() = default;

std::size_t DeviceMemory::distance(std::size_t offset, bool small) const noexcept {
  // A block of a small segment has at least kUnit bytes; one of a large segment has more than
  // kSmall.
  return zones_ ? offset + offset / (small ? kUnit : kSmall) * kZone : offset;
}

std::size_t DeviceMemory::addresses_of(const Segment& segment) const noexcept {
  const bool foreign = segment.stream == nullptr;
  return foreign ? segment.size + (zones_ ? kZone : 0) : distance(segment.size, segment.small);
}

void DeviceMemory::count(const Segment& segment, std::int64_t allocations, std::int64_t bytes,
                         std::int64_t requested) {
  add(stats_.allocation, segment.small, allocations);
  add(stats_.allocated_bytes, segment.small, bytes);
  add(stats_.requested_bytes, segment.small, requested);
}

Block* DeviceMemory::find(std::size_t size, SimStream& stream, PoolId pool) {
  const bool small = size <= kSmall;
  auto& blocks = free_blocks(pool, small);
  Block wanted;
  wanted.stream = &stream;
  wanted.size = size;
  const auto found = blocks.lower_bound(&wanted);
  if (found == blocks.end() || (*found)->stream != &stream) return nullptr;
  Block* block = *found;
  blocks.erase(found);
  return block;
}

char* DeviceMemory::find_addresses(std::size_t bytes) {
  collect_given_back();
  char* address = memory_map.device_base(device_.index) + (zones_ ? kSegmentUnit : 0);
  for (const auto& [start, segment] : segments_) {
    if (static_cast<std::size_t>(start - address) >= bytes) break;
    address = start + round_up(addresses_of(*segment), kSegmentUnit);
  }
  const auto* end = memory_map.device_base(device_.index) + memory_map.slice;
  return address + bytes > end ? nullptr : address;
}

char* DeviceMemory::take_addresses(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  char* address = find_addresses(bytes + (zones_ ? kZone : 0));
  TORCH_CHECK_WITH(OutOfMemoryError, address != nullptr, "[sim] device ", device_.index,
                   " has no free address range for ", in_mib(bytes),
                   " of another process's memory; release memory, or raise SIM_MEMORY");
  auto segment = std::make_unique<Segment>();
  segment->address = address;
  segment->size = bytes;
  segments_.emplace(address, std::move(segment));
  return address;
}

void DeviceMemory::give_addresses_back(char* address) noexcept {
  const std::lock_guard lock(given_back_mutex_);
  given_back_.push_back(address);
}

void DeviceMemory::collect_given_back() {
  const std::lock_guard lock(given_back_mutex_);
  for (auto* address : given_back_) segments_.erase(address);
  given_back_.clear();
}

Block* DeviceMemory::new_segment(std::size_t size, SimStream& stream, PoolId pool) {
  const bool small = size <= kSmall;
  std::size_t bytes = small                ? kSmallSegment
                      : size < kOwnSegment ? kLargeSegment
                                           : round_up(size, kSegmentUnit);
  auto held = static_cast<std::size_t>(stats_.reserved_bytes[0].current);
  // If a whole segment does not fit, try one of the requested size.
  if (held + bytes > limit()) bytes = round_up(size, kUnit);
  if (held + bytes > limit()) return nullptr;
  char* address = find_addresses(distance(bytes, small));
  if (address == nullptr) return nullptr;
  auto segment = std::make_unique<Segment>();
  *segment = {.address = address,
              .size = bytes,
              .stream = &stream,
              .pool = pool,
              .small = small,
              .first = new Block};
  auto* block = segment->first;
  block->segment = segment.get();
  block->address = address;
  block->size = bytes;
  block->stream = &stream;
  segments_.emplace(address, std::move(segment));
  add(stats_.segment, small, 1);
  add(stats_.reserved_bytes, small, static_cast<std::int64_t>(bytes));
  ++stats_.num_device_alloc;
  return block;
}

Block* DeviceMemory::take(Block* block, std::size_t size, std::size_t requested) {
  const bool small = block->segment->small;
  const bool was_split = block->before != nullptr || block->after != nullptr;
  if (was_split) {
    add(stats_.inactive_split, small, -1);
    add(stats_.inactive_split_bytes, small, -static_cast<std::int64_t>(block->size));
  }
  const auto left = block->size - size;
  if (small ? left >= kUnit : left > kSmall) {
    auto* rest = new Block;
    *rest = {.segment = block->segment,
             .address = block->segment->address + distance(block->offset + size, small),
             .offset = block->offset + size,
             .size = left,
             .stream = block->stream};
    rest->before = block;
    rest->after = block->after;
    if (rest->after != nullptr) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    free_blocks(block->segment->pool, small).insert(rest);
    add(stats_.inactive_split, small, 1);
    add(stats_.inactive_split_bytes, small, static_cast<std::int64_t>(left));
  }
  block->allocated = true;
  block->requested = requested;
  add(stats_.active, small, 1);
  add(stats_.active_bytes, small, static_cast<std::int64_t>(block->size));
  count(*block->segment, 1, static_cast<std::int64_t>(block->size),
        static_cast<std::int64_t>(requested));
  return block;
}

Block* DeviceMemory::allocate(std::size_t bytes, SimStream& stream) {
  device_.check_not_lost();
  const auto size = std::max(kUnit, round_up(bytes, kUnit));
  auto* capture = stream.capture();
  const PoolId pool = capture == nullptr ? 0 : capture->pool();
  collect_shared();
  std::unique_lock lock(mutex_);
  device_.allocations.add();
  if (device_.faults.any() && device_.faults.allocation())
    out_of_memory(bytes, "SIM_FAULTS made this allocation fail");
  if (!waiting_.empty()) collect_waiting();
  auto* block = find(size, stream, pool);
  if (block == nullptr) block = new_segment(size, stream, pool);
  if (block == nullptr) {
    ++stats_.num_alloc_retries;
    // Memory that record_stream() holds back becomes free when the recorded streams have finished.
    for (const auto& held : waiting_)
      for (const auto& [user, ticket] : held.tickets)
        if (user->capture() == nullptr) user->wait(ticket);
    collect_waiting();
    block = find(size, stream, pool);
    if (block == nullptr) {
      release_unused(0);
      block = new_segment(size, stream, pool);
    }
  }
  if (block == nullptr) {
    if (auto* watching = observer()) watching->on_out_of_memory(device_.index, bytes);
    out_of_memory(bytes, "the device's memory is full");
  }
  take(block, size, bytes);
  lock.unlock();
  if (auto* watching = observer()) watching->on_allocate(block->address, bytes, stream);
  return block;
}

void DeviceMemory::out_of_memory(std::size_t bytes, const char* why) {
  ++stats_.num_ooms;
  const auto held = static_cast<std::size_t>(stats_.reserved_bytes[0].current);
  const auto used = static_cast<std::size_t>(stats_.allocated_bytes[0].current);
  const auto most = limit();
  TORCH_CHECK_WITH(OutOfMemoryError, false, "[sim] out of memory on device ", device_.index, ": ",
                   why, "; tried to allocate ", in_mib(bytes), "; of ", in_mib(most), ", ",
                   in_mib(most - std::min(most, held)), " are free, ", in_mib(used),
                   " are used by tensors and ", in_mib(held - used),
                   " are cached; use less memory, or raise SIM_MEMORY");
}

void DeviceMemory::free(Block* block) noexcept {
  if (block->shared >= 0) {
    const std::lock_guard lock(mutex_);
    if (used_by_others(*block)) {
      used_elsewhere_.push_back(block);
      return;
    }
    end_sharing(*block);
  }
  if (auto* watching = observer())
    watching->on_free(block->address, block->requested, *block->stream);
  const std::lock_guard lock(mutex_);
  block->allocated = false;
  count(*block->segment, -1, -static_cast<std::int64_t>(block->size),
        -static_cast<std::int64_t>(block->requested));
  if (block->users.empty()) {
    put_back(block);
    return;
  }
  Waiting held{.block = block, .tickets = {}};
  for (auto* user : block->users) held.tickets.emplace_back(user, user->last());
  block->users.clear();
  waiting_.push_back(std::move(held));
}

void DeviceMemory::collect_shared() noexcept {
  std::vector<Block*> released;
  {
    const std::lock_guard lock(mutex_);
    if (used_elsewhere_.empty()) return;
    const auto middle =
        std::stable_partition(used_elsewhere_.begin(), used_elsewhere_.end(),
                              [](const Block* block) { return used_by_others(*block); });
    released.assign(middle, used_elsewhere_.end());
    used_elsewhere_.erase(middle, used_elsewhere_.end());
  }
  for (auto* block : released) free(block);
}

void DeviceMemory::collect_waiting() {
  for (auto held = waiting_.begin(); held != waiting_.end();) {
    const bool done = std::all_of(held->tickets.begin(), held->tickets.end(), [](const auto& use) {
      // Captured work runs at a later replay, so its memory is held back until the capture ends.
      return use.first->capture() == nullptr && use.first->done(use.second);
    });
    if (done) put_back(held->block);
    held = done ? waiting_.erase(held) : std::next(held);
  }
}

void DeviceMemory::merge(Block* block, Block* neighbour, FreeBlocks& blocks) {
  if (neighbour == nullptr || neighbour->allocated || blocks.erase(neighbour) == 0) return;
  const bool small = block->segment->small;
  add(stats_.inactive_split, small, -1);
  add(stats_.inactive_split_bytes, small, -static_cast<std::int64_t>(neighbour->size));
  if (neighbour == block->before) {
    block->address = neighbour->address;
    block->offset = neighbour->offset;
    block->before = neighbour->before;
    if (block->before != nullptr) block->before->after = block;
    if (block->segment->first == neighbour) block->segment->first = block;
  } else {
    block->after = neighbour->after;
    if (block->after != nullptr) block->after->before = block;
  }
  block->size += neighbour->size;
  delete neighbour;
}

void DeviceMemory::put_back(Block* block) {
  auto& segment = *block->segment;
  auto& blocks = free_blocks(segment.pool, segment.small);
  add(stats_.active, segment.small, -1);
  add(stats_.active_bytes, segment.small, -static_cast<std::int64_t>(block->size));
  merge(block, block->before, blocks);
  merge(block, block->after, blocks);
  blocks.insert(block);
  if (block->before != nullptr || block->after != nullptr) {
    add(stats_.inactive_split, segment.small, 1);
    add(stats_.inactive_split_bytes, segment.small, static_cast<std::int64_t>(block->size));
  }
  if (released_pools_.count(segment.pool) != 0) release_unused(segment.pool);
}

void DeviceMemory::release_unused(PoolId pool) {
  for (const bool small : {true, false}) {
    auto& blocks = free_blocks(pool, small);
    for (auto at = blocks.begin(); at != blocks.end();) {
      Block* block = *at;
      if (block->before != nullptr || block->after != nullptr) {
        ++at;
        continue;
      }
      at = blocks.erase(at);
      auto* segment = block->segment;
      // Queued work may still write to this block, and another stream may get the memory next.
      if (block->stream->capture() == nullptr) block->stream->wait(block->stream->last());
      release_pages(segment->address, addresses_of(*segment));
      add(stats_.segment, small, -1);
      add(stats_.reserved_bytes, small, -static_cast<std::int64_t>(segment->size));
      ++stats_.num_device_free;
      delete block;
      segments_.erase(segment->address);
    }
  }
}

void DeviceMemory::record_stream(Block* block, SimStream& stream) {
  if (auto* watching = observer())
    watching->on_record_stream(block->address, block->requested, stream);
  const std::lock_guard lock(mutex_);
  if (block->stream == &stream) return;
  if (std::find(block->users.begin(), block->users.end(), &stream) == block->users.end())
    block->users.push_back(&stream);
}

void DeviceMemory::empty_cache() {
  collect_shared();
  const std::lock_guard lock(mutex_);
  collect_waiting();
  release_unused(0);
}

void DeviceMemory::release_pool(PoolId pool) noexcept {
  const std::lock_guard lock(mutex_);
  released_pools_.insert(pool);
  release_unused(pool);
}

c10::CachingDeviceAllocator::DeviceStats DeviceMemory::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::size_t DeviceMemory::reserved() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(stats_.reserved_bytes[0].current);
}

void DeviceMemory::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  for_all(stats_, [](auto& stat) { stat.reset_peak(); });
}

void DeviceMemory::reset_accumulated_stats() {
  const std::lock_guard lock(mutex_);
  for_all(stats_, [](auto& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_device_alloc = stats_.num_device_free = 0;
}

}  // namespace anyaccel::backends::sim
