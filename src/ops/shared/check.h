// Argument errors of the ops, which Python receives as ValueError: `[where] what; got X, want Y; do
// Z`. Ops throw them before they change any tensor.
#pragma once

#include <string>
#include <string_view>

#include "c10/util/Exception.h"

namespace anyaccel::ops {

[[noreturn]] inline void fail_argument(std::string_view where, const std::string& what,
                                       const std::string& got, const std::string& want,
                                       const std::string& hint = {}) {
  std::string text = "[" + std::string(where) + "] " + what + "; got " + got + ", want " + want;
  if (!hint.empty()) text += "; " + hint;
  throw c10::ValueError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                        std::move(text));
}

}  // namespace anyaccel::ops
