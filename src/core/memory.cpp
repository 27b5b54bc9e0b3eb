// Device memory and process memory.
#include "anyaccel/memory.h"

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "base/process.h"
#include "core/checks.h"

namespace anyaccel {

void Accelerator::empty_cache() {
  translated("empty_cache", [&] { backend_->empty_cache(); });
}

std::int64_t Accelerator::memory_allocated(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "memory_allocated");
  return translated("memory_allocated", [&] { return backend_->memory_stats(index); })
      .allocated_bytes.current;
}

std::int64_t Accelerator::max_memory_allocated(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "max_memory_allocated");
  return translated("max_memory_allocated", [&] { return backend_->memory_stats(index); })
      .allocated_bytes.peak;
}

std::int64_t Accelerator::memory_reserved(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "memory_reserved");
  return translated("memory_reserved", [&] { return backend_->memory_stats(index); })
      .reserved_bytes.current;
}

std::int64_t Accelerator::max_memory_reserved(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "max_memory_reserved");
  return translated("max_memory_reserved", [&] { return backend_->memory_stats(index); })
      .reserved_bytes.peak;
}

std::int64_t Accelerator::memory_cached(std::optional<DeviceIndex> device_index) const {
  return memory_reserved(device_index);
}

std::int64_t Accelerator::max_memory_cached(std::optional<DeviceIndex> device_index) const {
  return max_memory_reserved(device_index);
}

void Accelerator::reset_peak_memory_stats(std::optional<DeviceIndex> device_index) {
  const auto index = checked(device_index, "reset_peak_memory_stats");
  translated("reset_peak_memory_stats", [&] { backend_->reset_peak_memory_stats(index); });
  reset_peak_resident_bytes();  // if this fails, the peak since the start of the process is used
}

void Accelerator::reset_max_memory_allocated(std::optional<DeviceIndex> device_index) {
  reset_peak_memory_stats(device_index);
}

void Accelerator::reset_max_memory_cached(std::optional<DeviceIndex> device_index) {
  reset_peak_memory_stats(device_index);
}

MemoryStats Accelerator::allocator_stats(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "allocator_stats");
  return translated("allocator_stats", [&] { return backend_->memory_stats(index); });
}

MemoryStatsMap Accelerator::memory_stats(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "memory_stats");
  const auto stats = translated("memory_stats", [&] { return backend_->memory_stats(index); });
  const auto resident = resident_memory();
  return {
      {"allocated_bytes.all.current", stats.allocated_bytes.current},
      {"allocated_bytes.all.peak", stats.allocated_bytes.peak},
      {"reserved_bytes.all.current", stats.reserved_bytes.current},
      {"reserved_bytes.all.peak", stats.reserved_bytes.peak},
      {"allocation.all.current", stats.allocation_count.current},
      {"allocation.all.peak", stats.allocation_count.peak},
      {"num_alloc_retries", stats.num_alloc_retries},
      {"num_ooms", stats.num_ooms},
      {"host.rss.current", resident.bytes},
      {"host.rss.peak", resident.peak_bytes},
  };
}

MemoryInfo Accelerator::memory_info(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "memory_info");
  return translated("memory_info", [&] { return backend_->memory_info(index); });
}

std::int64_t Accelerator::total_memory(std::optional<DeviceIndex> device_index) const {
  return memory_info(device_index).total;
}

std::int64_t Accelerator::available_memory(std::optional<DeviceIndex> device_index) const {
  return memory_info(device_index).free;
}

std::int64_t Accelerator::get_rss() const { return resident_bytes(); }

}  // namespace anyaccel
