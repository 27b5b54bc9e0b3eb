// Tracks the current op, for reports, and detects ops that are rejected because of their devices.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/util/ArrayRef.h>

#include <functional>
#include <string>

#include "backends/sim/check/python_names.h"

namespace anyaccel::backends::sim::checking {

/// The innermost op that this thread runs, for example "aten::mm", or "host code" outside of ops.
std::string current_op();

/// An op, or a use of an event, that torch or the simulator rejected.
struct Refusal {
  bool early_use = false;  ///< the event was used before it was complete
  /// True if the op uses a device of another type; false if its tensors are on several devices.
  bool other_accelerator = false;
  std::string op;
  std::string tensors;  ///< such as "float32 [2, 3] on sim:0, int64 [4] on cpu"
  std::string device;   ///< such as "xpu:0"; only for other_accelerator
};

/// What to call while ops are watched. The functions are called on the thread that runs the op.
struct OpCallbacks {
  /// Called before torch throws an error in an op with tensors on several devices, or on another
  /// accelerator's device.
  std::function<void(const Refusal&)> refused;
  /// Called for each op that has a tensor on the host and none on a device. If it returns true,
  /// `host_op` is called with the op's arguments.
  std::function<bool()> wants_host_op;
  std::function<void(const c10::OperatorName&, c10::ArrayRef<const c10::IValue>)> host_op;
  ReadFunction read = nullptr;
  MapFunction map = nullptr;
  UnmapFunction unmap = nullptr;
};

/// Starts watching ops. Must be called once per process.
void watch_ops(OpCallbacks callbacks);

/// The thread's next error, if no op begins before it, is reported as `early_use` of an event:
/// torch queries events before it computes the time between them.
void expect_early_use() noexcept;

/// Ignores the next error of this thread, because it was already reported.
void expect_error() noexcept;

}  // namespace anyaccel::backends::sim::checking
