// Recognizes optional functions that a device guard does not implement.
#pragma once

#include <c10/core/Event.h>
#include <c10/util/Exception.h>

#include <string_view>

namespace anyaccel {

/// Returns true if a device guard rejected a call because it does not implement the function. The
/// defaults in c10/core/impl/DeviceGuardImplInterface.h all begin with the same words.
inline bool guard_lacks_function(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace()).find("Backend doesn't support") !=
         std::string_view::npos;
}

/// Calls `direct`. If the device guard does not implement it (on Apple GPUs and Gaudi), calls
/// `through_event` with an event that marks the end of the stream's work.
template <typename Direct, typename ThroughEvent>
auto ask_guard(const c10::Stream& stream, Direct&& direct, ThroughEvent&& through_event) {
  try {
    return direct();
  } catch (const c10::Error& error) {
    if (!guard_lacks_function(error)) throw;
    c10::Event event(stream.device_type());
    event.record(stream);
    return through_event(event);
  }
}

/// Waits until the stream has finished its queued work.
inline void synchronize_stream(const c10::Stream& stream) {
  ask_guard(
      stream, [&] { stream.synchronize(); }, [](const c10::Event& event) { event.synchronize(); });
}

}  // namespace anyaccel
