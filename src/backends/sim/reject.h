// Errors for calls that a GPU would reject, too. An observer is notified of them.
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <string>

#include "backends/sim/observer.h"

namespace anyaccel::backends::sim {

/// Throws an error of type `Error` whose message consists of `parts`. Do not call it with a lock
/// held, because the observer records the call stack.
template <typename Error = c10::Error, typename... Parts>
[[noreturn]] void reject(const Parts&... parts) {
  const auto message = c10::str("[sim] ", parts...);
  if (auto* watching = observer()) watching->on_reject(message);
  throw Error({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, message);
}

}  // namespace anyaccel::backends::sim
