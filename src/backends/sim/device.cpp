#include "backends/sim/device.h"

#include <c10/util/Exception.h>

#include "backends/sim/allocator.h"
#include "backends/sim/fork.h"

namespace anyaccel::backends::sim {

namespace {

constexpr int kKernelFailed = 1;
constexpr int kDeviceLost = 2;

[[noreturn]] void raise_error(int code, const std::string& text) {
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, code,
                              text);
}

}  // namespace

Device::Device(int device_index, double latency) : index(device_index), latency_us(latency) {
  for (int id = 0; id < 1 + 2 * kPooled; ++id)
    streams.push_back(std::make_unique<SimStream>(*this, id, id > kPooled ? -1 : 0));
}

Device::~Device() = default;

SimStream& Device::next_stream(bool urgent) noexcept {
  const auto turn = (urgent ? next_urgent_ : next_normal_).fetch_add(1) % kPooled;
  auto& stream = *streams[1 + turn + (urgent ? kPooled : 0)];
  if (auto* watching = observer()) watching->on_stream_create(stream);
  return stream;
}

void Device::synchronize() {
  check_not_forked();
  if (auto* watching = observer()) watching->on_device_synchronize(index);
  for (const auto& stream : streams) {
    TORCH_CHECK(stream->capture() == nullptr,
                "[sim] a device cannot be synchronized while a graph is being captured on it; "
                "synchronize after "
                "capture_end()");
    stream->wait(stream->last());
  }
  raise();
}

void Device::fail(const char* op, const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failure_ = std::string("[sim] ") + op + " failed on device " + std::to_string(index) +
             " before this call, which is the first to wait for it: " + what;
  failed_ = true;
}

void Device::raise() {
  check_not_lost();
  if (!failed_.load(std::memory_order_acquire)) return;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (!failed_) return;  // another thread has reported it in the meantime
    text = std::move(failure_);
    failed_ = false;
  }
  raise_error(kKernelFailed, text);
}

void Device::lose(const char* op) {
  const std::lock_guard lock(mutex_);
  if (lost_) return;
  failure_ = std::string("[sim] device ") + std::to_string(index) + " was lost at " + op +
             ": this process cannot use it anymore; restart the program";
  lost_ = true;
}

void Device::check_not_lost() {
  if (!lost()) return;
  const std::lock_guard lock(mutex_);
  raise_error(kDeviceLost, failure_);
}

void Device::reset(double latency, const std::vector<Fault>& list, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  latency_us = latency;
  faults = FaultCounter(list, physical, seed);
  allocations.reset();
  launches.reset();
  failure_.clear();
  failed_ = lost_ = false;
}

void Device::keep_locks_free_in_forks() {
  hold_at_fork(memory->lock_for_fork(), ForkOrder::memory);
  hold_at_fork(memory->inner_lock_for_fork(), ForkOrder::inner);
  hold_at_fork(mutex_, ForkOrder::inner);
  for (const auto& stream : streams) hold_at_fork(stream->lock_for_fork(), ForkOrder::inner);
}

}  // namespace anyaccel::backends::sim
