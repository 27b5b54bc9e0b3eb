#include "backends/cpu/backend.h"

#include <ATen/CPUGeneratorImpl.h>
#include <time.h>

#include <array>
#include <atomic>

#include "anyaccel/error.h"
#include "backends/cpu/allocator.h"
#include "backends/cpu/dtypes.h"
#include "backends/cpu/graph/graph.h"
#include "backends/cpu/malloc_tuning.h"
#include "backends/cpu/traits.h"
#include "topology/memory_limit.h"

namespace anyaccel::backends::cpu {

namespace {

// Each thread's current device and streams. Plain data, because a thread_local with a destructor
// needs an initialization check at each use, and recording an event reads the current stream.
constexpr std::size_t kInlineDevices = 16;
constinit thread_local DeviceIndex thread_device = -1;  // not chosen yet
constinit thread_local std::array<c10::StreamId, kInlineDevices> thread_streams{};

/// Current streams of devices whose index is kInlineDevices or higher.
std::vector<c10::StreamId>& more_streams() {
  static thread_local std::vector<c10::StreamId> streams;
  return streams;
}

Stream stream_object(DeviceIndex index, c10::StreamId id) {
  // torch rejects Device(kCPU, 1), because its CPU device has no index.
  return {c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCPU), id), index};
}

std::int64_t now_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// An event is only a timestamp, because earlier work is complete when the event is recorded.
class CpuEvent final : public sdk::EventImpl {
 public:
  void record(const Stream& /*stream*/) override {
    time_ns_.store(now_ns(), std::memory_order_relaxed);
  }
  double elapsed_time(const sdk::EventImpl& end) const override {
    const auto& other = static_cast<const CpuEvent&>(end);
    return static_cast<double>(other.time_ns_.load(std::memory_order_relaxed) -
                               time_ns_.load(std::memory_order_relaxed)) /
           1e6;
  }

 private:
  std::atomic<std::int64_t> time_ns_{0};  // one thread may record the event while another reads it
};

}  // namespace

CpuBackend::CpuBackend()
    : CpuBackend(cpu_devices(topology::this_machine(), local_size_from_environment())) {}

CpuBackend::CpuBackend(std::vector<CpuDevice> devices)
    : Backend(cpu::traits()),
      devices_(std::move(devices)),
      first_device_(local_rank_from_environment(device_count())) {
  install_counting_allocator();
  keep_freed_memory();
}

DeviceIndex CpuBackend::device_count() const noexcept {
  return static_cast<DeviceIndex>(devices_.size());
}

DeviceIndex CpuBackend::current_device() const {
  // Another CpuBackend in this process may have more devices and may have set a larger index.
  return thread_device >= 0 && thread_device < device_count() ? thread_device : first_device_;
}

void CpuBackend::set_device(DeviceIndex index) { thread_device = index; }

void CpuBackend::synchronize(DeviceIndex /*index*/) {}

DeviceProperties CpuBackend::properties(DeviceIndex index) const {
  const auto& device = devices_[static_cast<std::size_t>(index)];
  const auto& machine = topology::this_machine();
  DeviceProperties properties;
  properties.name = machine.cpu_model.empty() ? "CPU" : machine.cpu_model;
  properties.vendor = machine.cpu_vendor;
  properties.multi_processor_count = device.cores;
  properties.numa_node = device.numa_node;
  return properties;
}

DtypeSupport CpuBackend::dtype_support(DeviceIndex /*index*/, c10::ScalarType dtype) const {
  return cpu::dtype_support(dtype);
}

at::Generator CpuBackend::default_generator(DeviceIndex /*index*/) const {
  return at::detail::getDefaultCPUGenerator();
}

Stream CpuBackend::current_stream(DeviceIndex index) const {
  const auto place = static_cast<std::size_t>(index);
  if (place < kInlineDevices) return stream_object(index, thread_streams[place]);
  return stream_object(index, place < more_streams().size() ? more_streams()[place] : 0);
}

void CpuBackend::set_stream(const Stream& stream) {
  if (stream.device_index() < 0 || stream.device_index() >= device_count())
    throw Error(ErrorCode::invalid_argument, "set_stream",
                {.what = "the stream's device does not exist",
                 .got = std::to_string(stream.device_index()),
                 .want = "0 to " + std::to_string(device_count() - 1)});
  const auto place = static_cast<std::size_t>(stream.device_index());
  if (place < kInlineDevices) {
    thread_streams[place] = stream.id();
    return;
  }
  if (place >= more_streams().size()) more_streams().resize(place + 1, 0);
  more_streams()[place] = stream.id();
}

Stream CpuBackend::default_stream(DeviceIndex index) const { return stream_object(index, 0); }

Stream CpuBackend::new_stream(DeviceIndex index, int /*priority*/) {
  static std::atomic<c10::StreamId> next{1};
  return stream_object(index, next.fetch_add(1, std::memory_order_relaxed));
}

std::shared_ptr<sdk::EventImpl> CpuBackend::new_event(DeviceIndex /*index*/,
                                                      bool /*enable_timing*/) {
  return std::make_shared<CpuEvent>();
}

MemoryStats CpuBackend::memory_stats(DeviceIndex /*index*/) const {
  if (counts_process_) {
    auto stats = counted_memory();
    stats.allocated_bytes = stats.reserved_bytes = process_memory_.read();
    return stats;
  }
  if (!counts_allocations())
    fail_unsupported("memory_stats", "counting host tensors",
                     "this program has set its own allocator");
  return counted_memory();
}

MemoryInfo CpuBackend::memory_info(DeviceIndex index) const {
  const auto amount =
      topology::usable_memory(devices_[static_cast<std::size_t>(index)].memory_nodes);
  if (amount.total == topology::MemoryAmount::unlimited)
    fail_unsupported("memory_info", "querying memory", "/proc/meminfo cannot be read");
  return {.free = amount.available, .total = amount.total};
}

void CpuBackend::reset_peak_memory_stats(DeviceIndex index) {
  memory_stats(index);  // throws if allocations are not counted
  reset_counted_peaks();
  if (counts_process_) process_memory_.reset_peak();
}

std::shared_ptr<sdk::GraphImpl> CpuBackend::new_graph() { return make_cpu_graph(); }

bool CpuBackend::is_current_stream_capturing() const { return is_cpu_capturing(); }

}  // namespace anyaccel::backends::cpu
