// How the recorder treats an op.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

#include "backends/cpu/graph/fast_step.h"

namespace anyaccel::backends::cpu {

/// How an op is captured, determined once per op from its schema, tags and kernels.
struct OpKind {
  enum class Action {
    decompose,  ///< run its composite kernel and record the ops inside
    pass,       ///< run without recording: it makes a view, allocates memory or changes metadata
    record,     ///< run it and record it
    fail,       ///< it cannot be part of a graph
  };
  Action action = Action::record;
  bool dynamic_by_mask = false;  ///< the result's shape depends on the data if an index is a mask
  std::string reason;            ///< why it cannot be captured
  bool writes = false;           ///< it has arguments that it writes to (in-place and out=)
  bool overwrites = false;       ///< it writes without reading the previous values
  bool random = false;           ///< it draws random numbers
  std::optional<c10::OperatorHandle> out;  ///< functional op: its out= overload with a CPU kernel
  FastMaker fast = nullptr;                ///< its replay routine; null if it has none
};

/// Thread-safe. The reference remains valid for the lifetime of the process.
const OpKind& kind_of(const c10::OperatorHandle& op);

}  // namespace anyaccel::backends::cpu
