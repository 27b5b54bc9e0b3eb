// Recognizes optional functions that a device guard does not implement.
#pragma once

#include <c10/util/Exception.h>

#include <string_view>

namespace anyaccel {

/// Returns true if a device guard rejected a call because it does not implement the function. The
/// defaults in c10/core/impl/DeviceGuardImplInterface.h all begin with the same words.
inline bool guard_lacks_function(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace()).find("Backend doesn't support") !=
         std::string_view::npos;
}

}  // namespace anyaccel
