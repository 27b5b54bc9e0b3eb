#include "anyaccel/error.h"

#include "anyaccel/sdk/error_message.h"
#include "base/untrusted_text.h"

namespace anyaccel {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::invalid_state: return "invalid_state";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::build_failed: return "build_failed";
    case ErrorCode::io: return "io";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::version_mismatch: return "version_mismatch";
    case ErrorCode::device_error: return "device_error";
    case ErrorCode::interrupted: return "interrupted";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

// Callers must quote and truncate untrusted parts. printable_text() protects against callers that
// forget to.
Error::Error(ErrorCode code, std::string_view where, const ErrorText& text)
    : std::runtime_error(printable_text(sdk::error_message(where, text))), code_(code) {}

}  // namespace anyaccel
