// Pinned host memory: a buffer with CL_MEM_ALLOC_HOST_PTR that stays mapped. Freed memory is
// reused, as in torch's CUDA allocator, after the copies that use it are complete.
#include <ATen/core/CachingHostAllocator.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "device/runtime.h"

namespace ocl_backend {
namespace {

struct Block {
  cl_mem buffer = nullptr;
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::vector<cl_event> events;
};

struct Blocks {
  std::mutex mutex;
  std::map<const char*, std::unique_ptr<Block>> used;
  std::vector<std::unique_ptr<Block>> free;
  at::HostStats stats;
};

Blocks& blocks() {
  static auto* instance = new Blocks;
  return *instance;
}

/// Returns the used block that contains the address, or null. The caller holds the lock.
Block* find(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  auto next = blocks().used.upper_bound(byte);
  if (next == blocks().used.begin()) return nullptr;
  auto& block = *std::prev(next)->second;
  return byte < std::prev(next)->first + block.bytes ? &block : nullptr;
}

bool is_idle(Block& block) {
  if (!std::all_of(block.events.begin(), block.events.end(), is_complete)) return false;
  for (auto* event : block.events) clReleaseEvent(event);
  block.events.clear();
  return true;
}

std::unique_ptr<Block> make(std::size_t bytes) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  cl_int status = CL_SUCCESS;
  block->buffer =
      clCreateBuffer(context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &status);
  TORCH_CHECK_WITH(OutOfMemoryError, status == CL_SUCCESS, "ocl: cannot allocate ", bytes,
                   " bytes of pinned memory (OpenCL error ", status, ")");
  block->memory =
      clEnqueueMapBuffer(current_queue(current_device()).handle, block->buffer, CL_TRUE,
                         CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, nullptr, nullptr, &status);
  check(status, "clEnqueueMapBuffer");
  return block;
}

void release(void* memory) {
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().used.find(static_cast<const char*>(memory));
  if (found == blocks().used.end()) return;
  blocks().stats.active_requests.decrease(1);
  blocks().stats.active_bytes.decrease(found->second->bytes);
  blocks().free.push_back(std::move(found->second));
  blocks().used.erase(found);
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    std::size_t size = 512;
    while (size < bytes) size *= 2;
    const std::lock_guard lock(blocks().mutex);
    auto& free = blocks().free;
    const auto found = std::find_if(free.begin(), free.end(), [&](auto& block) {
      return block->bytes == size && is_idle(*block);
    });
    std::unique_ptr<Block> block;
    if (found != free.end()) {
      block = std::move(*found);
      free.erase(found);
    } else {
      block = make(size);
      ++blocks().stats.num_host_alloc;
      blocks().stats.allocations.increase(1);
      blocks().stats.allocated_bytes.increase(size);
    }
    blocks().stats.active_requests.increase(1);
    blocks().stats.active_bytes.increase(size);
    auto* memory = block->memory;
    blocks().used[static_cast<const char*>(memory)] = std::move(block);
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  bool record_event(void* pointer, void* /*context*/, c10::Stream stream) override {
    auto* event = queue_of(stream).mark();
    use_pinned(pointer, event);
    clReleaseEvent(event);
    return true;
  }
  void empty_cache() override {
    const std::lock_guard lock(blocks().mutex);
    auto& free = blocks().free;
    for (auto& block : free) {
      if (!is_idle(*block)) continue;
      auto* queue = current_queue(current_device()).handle;
      clEnqueueUnmapMemObject(queue, block->buffer, block->memory, 0, nullptr, nullptr);
      clReleaseMemObject(block->buffer);
      ++blocks().stats.num_host_free;
      blocks().stats.allocations.decrease(1);
      blocks().stats.allocated_bytes.decrease(block->bytes);
      block.reset();
    }
    free.erase(std::remove(free.begin(), free.end(), nullptr), free.end());
  }
  at::HostStats get_stats() override {
    const std::lock_guard lock(blocks().mutex);
    return blocks().stats;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard lock(blocks().mutex);
    for (auto* stat : all_stats()) stat->reset_accumulated();
  }
  void reset_peak_stats() override {
    const std::lock_guard lock(blocks().mutex);
    for (auto* stat : all_stats()) stat->reset_peak();
  }

 private:
  static std::array<c10::CachingAllocator::Stat*, 4> all_stats() {
    auto& stats = blocks().stats;
    return {&stats.active_requests, &stats.active_bytes, &stats.allocations,
            &stats.allocated_bytes};
  }
};

}  // namespace

c10::Allocator& pinned_allocator() {
  static auto* instance = new PinnedAllocator;
  return *instance;
}

bool is_pinned(const void* address) {
  const std::lock_guard lock(blocks().mutex);
  return find(address) != nullptr;
}

void use_pinned(const void* address, cl_event event) {
  const std::lock_guard lock(blocks().mutex);
  auto* block = find(address);
  if (block == nullptr) return;
  clRetainEvent(event);
  block->events.push_back(event);
}

}  // namespace ocl_backend
