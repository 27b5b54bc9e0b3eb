// Tracks the current op, for reports, and detects ops that are rejected because of their devices.
#pragma once

#include <functional>
#include <string>

namespace anyaccel::backends::sim::checking {

/// The innermost op that this thread runs, for example "aten::mm", or "host code" outside of ops.
std::string current_op();

/// An op that torch or the simulator rejected.
struct Refusal {
  /// True if the op uses a device of another type; false if its tensors are on several devices.
  bool other_accelerator = false;
  std::string op;
  std::string tensors;  ///< such as "float32 [2, 3] on sim:0, int64 [4] on cpu"
  std::string device;   ///< such as "xpu:0"; only for other_accelerator
};

/// Starts watching ops. If torch creates an error in an op with tensors on several devices or on
/// another accelerator's device, `refused` is called before the error is thrown.
void watch_ops(std::function<void(const Refusal&)> refused);

/// Ignores the next error of this thread, because it was already reported.
void expect_error() noexcept;

}  // namespace anyaccel::backends::sim::checking
