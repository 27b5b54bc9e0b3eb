// Trying a step before it is trusted.
#pragma once

#include <vector>

#include "backends/cpu/graph/step.h"

namespace anyaccel::backends::cpu {

bool is_written(const c10::Argument& argument);

/// The tensors of arguments that the op writes to.
std::vector<at::Tensor> written(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args);

/// Those of the other arguments.
std::vector<at::Tensor> unwritten(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args);

/// Copies of values.
std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors);

/// Runs a step whose results `outputs` hold already and says whether it gave the same bits at the
/// same addresses and can run again. `before`: what the outputs held before the op, for a step that
/// reads them; may be empty. Either way the outputs end with the values they had.
bool repeats(Step& step, const std::vector<at::Tensor>& outputs,
             const std::vector<at::Tensor>& before);

}  // namespace anyaccel::backends::cpu
