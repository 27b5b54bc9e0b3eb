#include "backends/cpu/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>

namespace anyaccel::backends::cpu {

namespace {

/// A counter that tracks its peak. Relaxed memory order suffices, because no thread uses the
/// counter to synchronize access to other memory.
class Counter {
 public:
  void add(std::int64_t amount) noexcept {
    const auto now = current_.fetch_add(amount, std::memory_order_relaxed) + amount;
    raise_peak(now);
  }
  void subtract(std::int64_t amount) noexcept {
    current_.fetch_sub(amount, std::memory_order_relaxed);
  }
  MemoryStat read() const noexcept {
    const auto now = current_.load(std::memory_order_relaxed);
    // Another thread may have raised the counter but not yet the peak.
    return {now, std::max(now, peak_.load(std::memory_order_relaxed))};
  }
  void reset_peak() noexcept {
    peak_.store(current_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    raise_peak(current_.load(std::memory_order_relaxed));
  }

 private:
  void raise_peak(std::int64_t value) noexcept {
    auto peak = peak_.load(std::memory_order_relaxed);
    while (peak < value && !peak_.compare_exchange_weak(peak, value, std::memory_order_relaxed)) {
    }
  }
  std::atomic<std::int64_t> current_{0};
  std::atomic<std::int64_t> peak_{0};
};

// Constant-initialized, so that the counters are ready before the first tensor is allocated and
// still exist when the last one is freed.
constinit Counter bytes_counter;
constinit Counter count_counter;
constinit std::atomic<std::int64_t> failures{0};
constinit std::atomic<bool> installed{false};

/// Header in front of each allocation's data. It stores the requested size, because malloc reports
/// only the size of its block.
struct alignas(c10::gAlignment) Header {
  std::size_t bytes;
};

void release(void* data) {
  if (data == nullptr) return;
  auto* const header = static_cast<Header*>(data) - 1;
  const auto bytes = static_cast<std::int64_t>(header->bytes);
  c10::profiledCPUMemoryReporter().Delete(data);
  c10::free_cpu(header);
  bytes_counter.subtract(bytes);
  count_counter.subtract(1);
}

/// Allocates host memory for torch, with a header in front of the data. The data pointer and the
/// context pointer are equal, as raw_allocate() requires.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    auto* const header = static_cast<Header*>(take(bytes));
    header->bytes = bytes;
    void* const data = header + 1;
    bytes_counter.add(static_cast<std::int64_t>(bytes));
    count_counter.add(1);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }

 private:
  static void* take(std::size_t bytes) {
    constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() - sizeof(Header);
    try {
      if (bytes <= kMost) return c10::alloc_cpu(bytes + sizeof(Header));
    } catch (const c10::Error&) {  // reported below, with the tensor's size
    }
    failures.fetch_add(1, std::memory_order_relaxed);
    c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
    // The message begins with the same words as torch's own out-of-memory error, because programs
    // search for them. The exception has torch's own type for this error.
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                     " bytes; ", bytes_counter.read().current, " bytes are in use by host tensors");
  }
};

// Installed at load time, because tensors that a program creates before its first use of an
// accelerator must be counted too.
[[maybe_unused]] const bool installed_at_load = install_counting_allocator();

}  // namespace

bool install_counting_allocator() noexcept {
  if (installed.load(std::memory_order_acquire)) return true;
  if (c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) return false;
  // Never destroyed, because tensors with static storage duration may be freed later.
  static CountingAllocator& allocator = *new CountingAllocator;
  c10::SetCPUAllocator(&allocator);
  installed.store(c10::GetCPUAllocator() == &allocator, std::memory_order_release);
  return installed.load(std::memory_order_relaxed);
}

bool counts_allocations() noexcept { return installed.load(std::memory_order_acquire); }

MemoryStats counted_memory() noexcept {
  MemoryStats stats;
  stats.allocated_bytes = bytes_counter.read();
  stats.reserved_bytes = stats.allocated_bytes;
  stats.allocation_count = count_counter.read();
  stats.num_ooms = failures.load(std::memory_order_relaxed);
  return stats;
}

void reset_counted_peaks() noexcept {
  bytes_counter.reset_peak();
  count_counter.reset_peak();
}

}  // namespace anyaccel::backends::cpu
