// Stream markers for torch's profiler, which computes the device time of ops from them.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "backends/sim/event.h"
#include "backends/sim/register.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

/// True if the marker belongs to a graph. It never completes, because its work runs at a replay.
bool captured(const EventRecord& mark) { return mark.capture() != nullptr; }

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              std::int64_t* cpu_ns) const override {
    const int index = current_device();
    if (device != nullptr) *device = static_cast<c10::DeviceIndex>(index);
    *event = record_mark(current_stream(index));
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
  }

  /// Microseconds.
  float elapsed(const ProfilerVoidEventStub* event,
                const ProfilerVoidEventStub* event2) const override {
    const auto from = std::static_pointer_cast<EventRecord>(*event);
    const auto to = std::static_pointer_cast<EventRecord>(*event2);
    if (from == nullptr || to == nullptr || captured(*from) || captured(*to)) return 0;
    check_not_forked();
    from->wait();
    to->wait();
    return static_cast<float>(static_cast<double>(to->time() - from->time()) * 1e-3);
  }

  void onEachDevice(std::function<void(int)> op) const override {
    for (const auto& device : runtime().devices) op(device->index);
  }
  void synchronize() const override {
    for (const auto& device : runtime().devices) device->synchronize();
  }
  bool enabled() const override { return true; }
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}
};

}  // namespace

void register_profiler() {
  // torch keeps the pointer for the life of the process.
  if (runtime().type == c10::DeviceType::PrivateUse1)
    torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  else if (c10::DeviceTypeName(runtime().type, /*lower_case=*/false) == "CUDA")
    torch::profiler::impl::registerCUDAMethods(new Stubs);
}

}  // namespace anyaccel::backends::sim
