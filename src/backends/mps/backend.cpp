#include "backends/mps/backend.h"

#include <ATen/detail/MPSHooksInterface.h>

#include <algorithm>

#include "backends/mps/traits.h"

namespace anyaccel::backends::mps {

namespace {

std::int64_t raise(std::atomic<std::int64_t>& peak, std::int64_t value) {
  auto seen = peak.load();
  while (seen < value && !peak.compare_exchange_weak(seen, value)) {
  }
  return std::max(seen, value);
}

}  // namespace

MpsBackend::MpsBackend() : TorchBackend(mps::traits()) {}

DeviceProperties MpsBackend::properties(DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.total_memory = memory_info(index).total;
  return properties;
}

DtypeSupport MpsBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  if (dtype == c10::ScalarType::Double || dtype == c10::ScalarType::ComplexDouble) return {};
  auto support = TorchBackend::dtype_support(index, dtype);
  // DeepSpeed checks torch.backends.mps.is_macos_or_newer(14, 0) for bf16.
  if (dtype == c10::ScalarType::BFloat16)
    support.computable = support.fast = at::detail::getMPSHooks().isOnMacOSorNewer(14, 0);
  return support;
}

MemoryStats MpsBackend::memory_stats(DeviceIndex) const {
  const auto& hooks = at::detail::getMPSHooks();
  MemoryStats stats;
  stats.allocated_bytes.current = static_cast<std::int64_t>(hooks.getCurrentAllocatedMemory());
  stats.allocated_bytes.peak = raise(allocated_peak_, stats.allocated_bytes.current);
  stats.reserved_bytes.current = static_cast<std::int64_t>(hooks.getDriverAllocatedMemory());
  stats.reserved_bytes.peak = raise(reserved_peak_, stats.reserved_bytes.current);
  return stats;
}

// The GPU shares the host's memory. The total is Metal's recommended maximum, and the free memory
// is that total minus the memory that the driver holds for this process.
MemoryInfo MpsBackend::memory_info(DeviceIndex) const {
  const auto& hooks = at::detail::getMPSHooks();
  const auto total = static_cast<std::int64_t>(hooks.getRecommendedMaxMemory());
  const auto held = static_cast<std::int64_t>(hooks.getDriverAllocatedMemory());
  return {.free = std::max<std::int64_t>(0, total - held), .total = total};
}

void MpsBackend::reset_peak_memory_stats(DeviceIndex) {
  const auto& hooks = at::detail::getMPSHooks();
  allocated_peak_ = static_cast<std::int64_t>(hooks.getCurrentAllocatedMemory());
  reserved_peak_ = static_cast<std::int64_t>(hooks.getDriverAllocatedMemory());
}

void MpsBackend::empty_cache() { at::detail::getMPSHooks().emptyCache(); }

}  // namespace anyaccel::backends::mps
