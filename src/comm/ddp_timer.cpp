#include "comm/ddp_timer.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>
#include <mutex>
#include <optional>

namespace anyaccel::comm {

namespace {

/// Measures time with device events, as torch's CUDA timer does.
class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    c10d::Timer::record(event);
    auto& mark = marks_[static_cast<std::size_t>(event)];
    if (!mark) mark.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    mark->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }

  std::optional<std::int64_t> measureDifference(Event start, Event end) override {
    const auto& from = marks_[static_cast<std::size_t>(start)];
    const auto& to = marks_[static_cast<std::size_t>(end)];
    if (!from || !to) return std::nullopt;
    to->synchronize();
    const double milliseconds = from->elapsedTime(*to);
    // A module that skips a step records its events in a different order.
    if (milliseconds < 0) return std::nullopt;
    return static_cast<std::int64_t>(milliseconds * 1e6);
  }

 private:
  c10::Device device_;
  std::array<std::optional<c10::Event>, 5> marks_;
};

}  // namespace

void register_ddp_timer(c10::DeviceType type) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto* registry = c10d::TimerRegistry();
  if (registry->Has(type)) return;
  registry->Register(type, [](c10::Device device) -> std::unique_ptr<c10d::Timer> {
    return std::make_unique<DeviceTimer>(device);
  });
}

}  // namespace anyaccel::comm
