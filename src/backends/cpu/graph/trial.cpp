#include "backends/cpu/graph/trial.h"

#include <ATen/core/function_schema.h>

#include <cstring>

namespace anyaccel::backends::cpu {
namespace {

// Does not use equal(), which treats NaN as unequal to itself and the two zeros as equal.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const auto first = a.contiguous(), second = b.contiguous();
  return first.numel() == 0 ||
         std::memcmp(first.const_data_ptr(), second.const_data_ptr(), first.nbytes()) == 0;
}

std::vector<at::Tensor> tensors_where(const c10::OperatorHandle& op,
                                      c10::ArrayRef<c10::IValue> args, bool is_write) {
  std::vector<at::Tensor> found;
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i]) != is_write) continue;
    const auto tensors = tensors_in(args.slice(i, 1));
    found.insert(found.end(), tensors.begin(), tensors.end());
  }
  return found;
}

}  // namespace

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::vector<at::Tensor> written(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  return tensors_where(op, args, true);
}

std::vector<at::Tensor> unwritten(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  return tensors_where(op, args, false);
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

bool repeats(Step& step, const std::vector<at::Tensor>& outputs,
             const std::vector<at::Tensor>& before) {
  const StepScope scope;
  const auto wanted = copies_of(outputs);
  std::vector<const void*> addresses;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    addresses.push_back(outputs[i].const_data_ptr());
    if (!before.empty()) outputs[i].copy_(before[i]);
  }
  step.run();
  bool same = step.repeatable();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    same = same && outputs[i].const_data_ptr() == addresses[i] && same_bits(outputs[i], wanted[i]);
  }
  if (!same) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outputs[i].resize_(wanted[i].sizes()).copy_(wanted[i]);
  }
  return same;
}

}  // namespace anyaccel::backends::cpu
