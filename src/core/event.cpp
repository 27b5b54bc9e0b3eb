#include "anyaccel/event.h"

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "core/checks.h"

namespace anyaccel {

::anyaccel::Event Accelerator::Event(bool enable_timing, std::optional<DeviceIndex> device_index) {
  const auto index = checked(device_index, "Event");
  auto impl = translated("Event", [&] { return backend_->new_event(index, enable_timing); });
  if (!impl)
    throw Error(ErrorCode::internal, "Event",
                {.what = "the backend '" + name() + "' returned no event"});
  impl->timing_ = enable_timing;
  return ::anyaccel::Event(std::move(impl));
}

void Event::record(const Stream& stream) {
  translated("Event::record", [&] { impl_->record(stream); });
  impl_->recorded_ = true;
}

void Event::record() { record(get_accelerator().current_stream()); }

void Event::wait(const Stream& stream) const {
  if (impl_->recorded_) translated("Event::wait", [&] { impl_->wait(stream); });
}

void Event::wait() const { wait(get_accelerator().current_stream()); }

bool Event::query() const {
  return !impl_->recorded_ || translated("Event::query", [&] { return impl_->query(); });
}

void Event::synchronize() const {
  if (impl_->recorded_) translated("Event::synchronize", [&] { impl_->synchronize(); });
}

double Event::elapsed_time(const Event& end) const {
  for (const auto* event : {this, &end}) {
    if (!event->impl_->timing_)
      throw Error(ErrorCode::invalid_state, "Event::elapsed_time",
                  {.what = "an event was created without timing",
                   .hint = "create both events with Event(enable_timing = true)"});
    if (!event->impl_->recorded_)
      throw Error(
          ErrorCode::invalid_state, "Event::elapsed_time",
          {.what = "an event was not recorded", .hint = "call record() on both events first"});
    if (!event->query())
      throw Error(
          ErrorCode::invalid_state, "Event::elapsed_time",
          {.what = "an event is not complete", .hint = "call synchronize() on the event first"});
  }
  return translated("Event::elapsed_time", [&] { return impl_->elapsed_time(*end.impl_); });
}

}  // namespace anyaccel
