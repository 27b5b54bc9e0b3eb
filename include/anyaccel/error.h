// AnyAccel's exception type. This header does not depend on torch.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel {

/// Kind of failure that an `Error` reports. Programs branch on the code, never on the text.
enum class ErrorCode {
  invalid_argument,  ///< an argument has a value that the function does not accept
  invalid_state,     ///< the call is invalid in this state, for example replay() before a capture
  unsupported,       ///< the backend or device lacks the feature
  unavailable,       ///< the device, library or service is missing or cannot start
  not_found,         ///< a named file, backend, op or tensor does not exist
  out_of_memory,     ///< host or device memory is exhausted
  build_failed,      ///< compiling or linking an op failed
  io,                ///< the operating system reported a failed read or write
  corrupt,           ///< the content of a file is invalid
  timeout,           ///< the result did not arrive within the time limit
  version_mismatch,  ///< two components were built for different versions
  device_error,      ///< the device reported that earlier work failed
  interrupted,       ///< the user requested a stop
  internal,          ///< a defect in AnyAccel itself
};

/// Return the lower-case name of a code, for example "invalid_argument". Names are stable. Never
/// null.
ANYACCEL_API const char* to_string(ErrorCode code) noexcept;

/// Parts of an error message. Only `what` is required; empty parts are omitted.
struct ErrorText {
  std::string what;       ///< what failed, without a final period
  std::string got = {};   ///< the actual value
  std::string want = {};  ///< the expected value
  std::string hint = {};  ///< how to solve the problem
};

/// The exception that every part of AnyAccel throws. The message has the form `[where] what; got X,
/// want Y; do Z`. Copyable, and safe to pass between threads.
///
///     try {
///       train();
///     } catch (const anyaccel::Error& error) {
///       if (error.code() != anyaccel::ErrorCode::out_of_memory) throw;
///       retry_with_smaller_batch();
///     }
class ANYACCEL_API Error : public std::runtime_error {
 public:
  /// Create an error. `where`: the public function or command that failed, by the name that the
  /// caller knows.
  Error(ErrorCode code, std::string_view where, const ErrorText& text);
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace anyaccel
