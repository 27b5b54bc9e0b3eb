#include "anyaccel/sdk/torch_backend.h"
#include "backends/torch/parts.h"

namespace anyaccel::sdk {

using torch_parts::device_allocator;

namespace {

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

MemoryStat stat(const c10::CachingAllocator::StatArray& array) {
  return {array[kAll].current, array[kAll].peak};
}

/// Passes the device type's allocator to `ask`. Calls `unsupported` with the reason if there is no
/// allocator that keeps statistics, or if it inherits torch's function, which throws.
template <typename Ask, typename Unsupported>
auto ask_allocator(c10::DeviceType type, const Ask& ask, const Unsupported& unsupported) {
  auto* allocator = device_allocator(type);
  if (allocator == nullptr) unsupported("its allocator does not keep statistics");
  try {
    return ask(*allocator);
  } catch (const c10::NotImplementedError&) {
    unsupported("its allocator does not implement it");
    throw;
  }
}

}  // namespace

MemoryStats TorchBackend::memory_stats(DeviceIndex index) const {
  start();
  const auto stats = ask_allocator(
      device_type(),
      [&](auto& allocator) {
        return allocator.getDeviceStats(static_cast<c10::DeviceIndex>(index));
      },
      [&](const char* reason) {
        fail_unsupported("memory_stats", "counting allocated memory", reason);
      });
  return {.allocated_bytes = stat(stats.allocated_bytes),
          .reserved_bytes = stat(stats.reserved_bytes),
          .allocation_count = stat(stats.allocation),
          .num_alloc_retries = stats.num_alloc_retries,
          .num_ooms = stats.num_ooms};
}

MemoryInfo TorchBackend::memory_info(DeviceIndex index) const {
  start();
  const auto [free, total] = ask_allocator(
      device_type(),
      [&](auto& allocator) {
        return allocator.getMemoryInfo(static_cast<c10::DeviceIndex>(index));
      },
      [&](const char* reason) {
        fail_unsupported("memory_info", "querying a device's free and total memory", reason);
      });
  return {.free = static_cast<std::int64_t>(free), .total = static_cast<std::int64_t>(total)};
}

void TorchBackend::reset_peak_memory_stats(DeviceIndex index) {
  start();
  ask_allocator(
      device_type(),
      [&](auto& allocator) { allocator.resetPeakStats(static_cast<c10::DeviceIndex>(index)); },
      [&](const char* reason) {
        fail_unsupported("reset_peak_memory_stats", "counting allocated memory", reason);
      });
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
