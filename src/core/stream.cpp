#include "anyaccel/stream.h"

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "core/checks.h"
#include "core/guard_functions.h"

namespace anyaccel {

bool Stream::query() const {
  return translated("Stream::query", [&] {
    return ask_guard(
        stream_, [&] { return stream_.query(); },
        [](const c10::Event& event) { return event.query(); });
  });
}

void Stream::synchronize() const {
  translated("Stream::synchronize", [&] { synchronize_stream(stream_); });
}

void Stream::wait_event(const Event& event) const { event.wait(*this); }

void Stream::wait_stream(const Stream& other) const { other.record_event().wait(*this); }

Event Stream::record_event(bool enable_timing) const {
  auto event = get_accelerator().Event(enable_timing, index_);
  event.record(*this);
  return event;
}

void* Stream::native_handle() const {
  try {
    return stream_.native_handle();
  } catch (const c10::Error&) {
    throw Error(ErrorCode::unsupported, "Stream::native_handle",
                {.what = "streams on this device have no vendor handle"});
  }
}

::anyaccel::Stream Accelerator::Stream(std::optional<DeviceIndex> device_index, int priority) {
  const auto index = checked(device_index, "Stream");
  return translated("Stream", [&] { return backend_->new_stream(index, priority); });
}

StreamGuard Accelerator::stream(const ::anyaccel::Stream& stream) { return {*this, stream}; }

void Accelerator::set_stream(const ::anyaccel::Stream& stream) {
  if (stream.unwrap().device_type() != device_type())
    throw Error(ErrorCode::invalid_argument, "set_stream",
                {.what = "the stream belongs to a different accelerator",
                 .got = c10::DeviceTypeName(stream.unwrap().device_type(), true),
                 .want = device_name()});
  translated("set_stream", [&] { backend_->set_stream(stream); });
  run_lazy_calls();
}

::anyaccel::Stream Accelerator::current_stream(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "current_stream");
  return translated("current_stream", [&] { return backend_->current_stream(index); });
}

::anyaccel::Stream Accelerator::default_stream(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "default_stream");
  return translated("default_stream", [&] { return backend_->default_stream(index); });
}

StreamGuard::StreamGuard(Accelerator& accelerator, const Stream& stream)
    : accelerator_(accelerator),
      previous_device_(accelerator.current_device()),
      previous_(accelerator.current_stream(stream.device_index())) {
  accelerator_.set_stream(stream);  // must come first: if it throws, nothing has changed yet
  accelerator_.set_device(stream.device_index());
}

StreamGuard::~StreamGuard() {
  try {
    accelerator_.backend().set_stream(previous_);
    accelerator_.backend().set_device(previous_device_);
  } catch (...) {  // a lost device; the next call on it reports the error
  }
}

}  // namespace anyaccel
