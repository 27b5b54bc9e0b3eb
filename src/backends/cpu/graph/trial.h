// Validates a step before it is used.
#pragma once

#include <vector>

#include "backends/cpu/graph/step.h"

namespace anyaccel::backends::cpu {

bool is_written(const c10::Argument& argument);

/// The tensor arguments that the op writes to.
std::vector<at::Tensor> written(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args);

/// The tensor arguments that the op does not write to.
std::vector<at::Tensor> unwritten(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args);

/// Copies of the tensors' values.
std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors);

/// Runs a step whose results are already in `outputs`. Returns true if the step can be repeated and
/// its results are bitwise equal and at the same addresses. `before`: the contents of the outputs
/// before the op, for a step that reads them; may be empty. In either case, `outputs` contains the
/// original results afterwards.
bool repeats(Step& step, const std::vector<at::Tensor>& outputs,
             const std::vector<at::Tensor>& before);

}  // namespace anyaccel::backends::cpu
