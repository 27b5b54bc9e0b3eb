// Finds the host memory that an op on the host accesses.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

#include <functional>

namespace anyaccel::backends::sim::checking {

/// Calls `found` for each tensor whose memory the op's own kernel reads or writes, with true if it
/// writes. Ignores ops that only use a tensor's shape, ops that return views, and ops that call
/// other ops to access the memory.
void find_host_operands(const c10::OperatorName& op, c10::ArrayRef<const c10::IValue> arguments,
                        const std::function<void(const c10::TensorImpl&, bool)>& found);

}  // namespace anyaccel::backends::sim::checking
