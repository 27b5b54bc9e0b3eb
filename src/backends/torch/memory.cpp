#include "anyaccel/sdk/torch_backend.h"
#include "backends/torch/parts.h"

namespace anyaccel::sdk {

using torch_parts::device_allocator;

namespace {

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

MemoryStat stat(const c10::CachingAllocator::StatArray& array) {
  return {array[kAll].current, array[kAll].peak};
}

}  // namespace

MemoryStats TorchBackend::memory_stats(DeviceIndex index) const {
  start();
  auto* allocator = device_allocator(device_type());
  if (allocator == nullptr)
    fail_unsupported("memory_stats", "counting allocated memory",
                     "its allocator does not keep statistics");
  const auto stats = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(index));
  return {.allocated_bytes = stat(stats.allocated_bytes),
          .reserved_bytes = stat(stats.reserved_bytes),
          .allocation_count = stat(stats.allocation),
          .num_alloc_retries = stats.num_alloc_retries,
          .num_ooms = stats.num_ooms};
}

MemoryInfo TorchBackend::memory_info(DeviceIndex index) const {
  start();
  auto* allocator = device_allocator(device_type());
  try {
    if (allocator != nullptr) {
      const auto [free, total] = allocator->getMemoryInfo(static_cast<c10::DeviceIndex>(index));
      return {.free = static_cast<std::int64_t>(free), .total = static_cast<std::int64_t>(total)};
    }
  } catch (const c10::NotImplementedError&) {  // torch's default implementation
  }
  fail_unsupported("memory_info", "querying a device's memory",
                   "its allocator does not report free memory");
}

void TorchBackend::reset_peak_memory_stats(DeviceIndex index) {
  start();
  auto* allocator = device_allocator(device_type());
  if (allocator == nullptr)
    fail_unsupported("reset_peak_memory_stats", "counting allocated memory",
                     "its allocator does not keep statistics");
  allocator->resetPeakStats(static_cast<c10::DeviceIndex>(index));
}

void TorchBackend::empty_cache() {
  if (!is_initialized()) return;
  if (auto* allocator = device_allocator(device_type())) allocator->emptyCache();
}

c10::Allocator* TorchBackend::host_allocator() const {
  start();
  return at::globalContext().getAcceleratorHooksInterface(device_type()).getPinnedMemoryAllocator();
}

}  // namespace anyaccel::sdk
