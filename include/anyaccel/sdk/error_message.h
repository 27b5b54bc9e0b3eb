// Formatting of error messages. Shared by AnyAccel's base library and the op libraries, which do
// not link the base library.
#pragma once

#include <string>
#include <string_view>

#include "anyaccel/error.h"

namespace anyaccel::sdk {

/// Return `[where] what; got X, want Y; do Z`, omitting empty parts.
inline std::string error_message(std::string_view where, const ErrorText& text) {
  std::string out = "[";
  out.append(where).append("] ").append(text.what);
  if (!text.got.empty()) out.append("; got ").append(text.got);
  if (!text.want.empty()) out.append(text.got.empty() ? "; want " : ", want ").append(text.want);
  if (!text.hint.empty()) out.append("; ").append(text.hint);
  return out;
}

}  // namespace anyaccel::sdk
