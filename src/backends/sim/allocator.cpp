// Implements torch's allocator interface for device memory.
#include "backends/sim/allocator.h"

#include <algorithm>
#include <cstring>

#include "backends/sim/memory_map.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

namespace {

/// Reports an allocation or, if `bytes` is negative, a deallocation to torch's profiler.
void report(void* address, std::int64_t bytes, const Device& device) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto stats = device.memory->stats();
  c10::reportMemoryUsageToProfiler(
      address, bytes, static_cast<std::size_t>(stats.allocated_bytes[0].current),
      static_cast<std::size_t>(stats.reserved_bytes[0].current), runtime().device(device.index));
}

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  const auto& device = block->stream->device();
  void* address = block->address;
  const auto bytes = static_cast<std::int64_t>(block->size);
  device.memory->free(block);
  report(address, -bytes, device);
}

class CopyBytes final : public Task {
 public:
  CopyBytes(void* to, const void* from, std::size_t bytes)
      : Task("memcpy"), to_(to), from_(from), bytes_(bytes) {}
  void run(bool /*again*/) override { std::memcpy(to_, from_, bytes_); }

 private:
  void* to_;
  const void* from_;
  std::size_t bytes_;
};

}  // namespace

std::optional<std::pair<char*, std::size_t>> DeviceMemory::allocation_with_zones(
    const void* address) {
  if (!zones_) return std::nullopt;
  const auto* at = static_cast<const char*>(address);
  const std::lock_guard lock(mutex_);
  auto found = segments_.upper_bound(const_cast<char*>(at));
  if (found == segments_.begin()) return std::nullopt;
  const auto& segment = *std::prev(found)->second;
  for (const auto* block = segment.first; block != nullptr; block = block->after)
    if (block->allocated && at >= block->address && at < block->address + block->requested)
      return std::make_pair(block->address, block->requested);
  return std::nullopt;
}

SimAllocator& allocator() noexcept {
  static auto* instance = new SimAllocator;
  return *instance;
}

c10::DataPtr SimAllocator::allocate(std::size_t bytes) {
  return allocate_on(current_device(), bytes);
}

c10::DataPtr SimAllocator::allocate_on(int device, std::size_t bytes) {
  const auto torch_device = runtime().device(device);
  if (bytes == 0) return {nullptr, torch_device};
  auto* block = device_at(device).memory->allocate(bytes, current_stream(device));
  report(block->address, static_cast<std::int64_t>(block->size), device_at(device));
  return {block->address, block, &free_block, torch_device};
}

void SimAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  const Operand operands[] = {{.address = to, .bytes = bytes, .written = true},
                              {.address = from, .bytes = bytes}};
  launch(current_stream(memory_map.device_of(to)),
         std::make_unique<CopyBytes>(memory_map.alias(to), memory_map.alias(from), bytes),
         {.op = "memcpy", .operands = operands});
}

bool SimAllocator::initialized() { return true; }

void SimAllocator::emptyCache(c10::MempoolId_t /*pool*/) {
  for (const auto& device : runtime().devices) device->memory->empty_cache();
}

Block* block_of(const c10::DataPtr& data) noexcept {
  return data.get_deleter() == &free_block ? static_cast<Block*>(data.get_context()) : nullptr;
}

void SimAllocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  // Allocations of zero bytes, and memory from other allocators, have no block here.
  auto* block = block_of(data);
  if (block == nullptr) return;
  block->stream->device().memory->record_stream(block, stream_of(stream));
}

c10::CachingDeviceAllocator::DeviceStats SimAllocator::getDeviceStats(c10::DeviceIndex device) {
  return device_at(device).memory->stats();
}
void SimAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  device_at(device).memory->reset_accumulated_stats();
}
void SimAllocator::resetPeakStats(c10::DeviceIndex device) {
  device_at(device).memory->reset_peak_stats();
}

std::pair<std::size_t, std::size_t> SimAllocator::getMemoryInfo(c10::DeviceIndex device) {
  auto& memory = *device_at(device).memory;
  const auto limit = memory.limit();
  return {limit - std::min(limit, memory.reserved()), limit};
}

}  // namespace anyaccel::backends::sim
