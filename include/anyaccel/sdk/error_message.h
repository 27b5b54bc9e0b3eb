// The text of an Error, for the places that make one: AnyAccel's base library, and the libraries of
// ops, which link none of ours.
#pragma once

#include <string>
#include <string_view>

#include "anyaccel/error.h"

namespace anyaccel::sdk {

/// `[where] what; got X, want Y; do Z`; parts that are empty are left out.
inline std::string error_message(std::string_view where, const ErrorText& text) {
  std::string out = "[";
  out.append(where).append("] ").append(text.what);
  if (!text.got.empty()) out.append("; got ").append(text.got);
  if (!text.want.empty()) out.append(text.got.empty() ? "; want " : ", want ").append(text.want);
  if (!text.hint.empty()) out.append("; ").append(text.hint);
  return out;
}

}  // namespace anyaccel::sdk
