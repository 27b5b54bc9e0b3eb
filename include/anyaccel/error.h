// Errors: one exception type with a code and a message of one form. Needs no torch.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel {

/// What kind of failure an `Error` reports. Callers branch on this, never on the text.
enum class ErrorCode {
  invalid_argument,  ///< the caller gave something that cannot be used
  invalid_state,     ///< the call is not possible now (replay before capture, ...)
  unsupported,       ///< this backend or device does not have the feature
  unavailable,       ///< the device, library or service is not there or cannot start
  not_found,         ///< a named file, backend, op or tensor does not exist
  out_of_memory,     ///< host or device memory is exhausted
  build_failed,      ///< compiling or linking an op failed
  io,                ///< the operating system refused a read or a write
  corrupt,           ///< a file was read and its content is not what it must be
  timeout,           ///< a wait ended without an answer
  version_mismatch,  ///< two parts were built for different versions
  device_error,      ///< the device reported a failure of earlier work
  interrupted,       ///< the user asked to stop
  internal,          ///< a defect in AnyAccel itself
};

/// Stable lower-case name of a code, for example "invalid_argument". Never null.
ANYACCEL_API const char* to_string(ErrorCode code) noexcept;

/// The parts of a message. Only `what` is required; empty parts are left out.
struct ErrorText {
  std::string what;       ///< what went wrong, without a final full stop
  std::string got = {};   ///< what was given or found
  std::string want = {};  ///< what would have been right
  std::string hint = {};  ///< what to do about it
};

/// The exception that every part of AnyAccel throws.
/// Its message reads `[where] what; got X, want Y; do Z`. Copyable; safe to pass between threads.
class ANYACCEL_API Error : public std::runtime_error {
 public:
  /// `where` is the public function or command that failed, as the caller knows it.
  Error(ErrorCode code, std::string_view where, const ErrorText& text);
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace anyaccel
