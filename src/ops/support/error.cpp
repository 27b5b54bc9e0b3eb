// anyaccel::Error for the libraries of ops, which link no library of ours; src/base/error.cpp has the same message.
#include "ops/support/error.h"

namespace anyaccel {

namespace {

thread_local ErrorCode last_code = ErrorCode::internal;

std::string message(std::string_view where, const ErrorText& text) {
  std::string out = "[";
  out.append(where).append("] ").append(text.what);
  if (!text.got.empty()) out.append("; got ").append(text.got);
  if (!text.want.empty()) out.append(text.got.empty() ? "; want " : ", want ").append(text.want);
  if (!text.hint.empty()) out.append("; ").append(text.hint);
  return out;
}

}  // namespace

Error::Error(ErrorCode code, std::string_view where, const ErrorText& text)
    : std::runtime_error(message(where, text)), code_(code) {
  last_code = code;
}

ErrorCode ops::last_error_code() noexcept { return last_code; }

}  // namespace anyaccel
