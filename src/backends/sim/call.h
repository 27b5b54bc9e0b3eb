// One call to an op with arguments on the device.
#pragma once

#include <ATen/core/stack.h>

#include "backends/sim/generator.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memo.h"
#include "backends/sim/op_info.h"

namespace anyaccel::backends::sim {

/// Inspects the arguments without changing them.
class Call {
 public:
  /// `arguments` must stay on the stack for the lifetime of the call. Throws if the tensors are on
  /// different devices.
  Call(const OpInfo& info, c10::ArrayRef<c10::IValue> arguments);

  const OpInfo& info() const noexcept { return info_; }
  int device() const noexcept { return device_; }
  SimStream& stream() const noexcept { return current_stream(device_); }
  const CallKey& key() const noexcept { return key_; }
  /// False if an argument cannot be encoded in a key.
  bool known_by_key() const noexcept { return known_by_key_; }
  /// Device tensors that the op writes to, in order.
  const std::vector<at::Tensor>& written() const noexcept { return written_; }
  const c10::IValue& argument(int index) const noexcept {
    return arguments_[static_cast<std::size_t>(index)];
  }

  /// The arguments for a kernel on the host. `aliases` receives the host alias of each tensor in
  /// `written()`.
  torch::jit::Stack host_arguments(std::vector<at::Tensor>& aliases) const;
  /// Like host_arguments(), but the tensors do not have data. For kernels that only infer shapes.
  torch::jit::Stack meta_arguments(std::vector<at::Tensor>& metas) const;
  /// The operands, for an observer.
  std::vector<Operand> operands() const;

 private:
  template <typename Convert>
  torch::jit::Stack converted(std::vector<at::Tensor>& written, Convert convert) const;
  void look_at(const c10::IValue& value, std::size_t index);
  void look_at_tensor(const at::Tensor& tensor, bool is_written);
  void use_device(int index);

  const OpInfo& info_;
  c10::ArrayRef<c10::IValue> arguments_;
  CallKey key_;
  int device_ = -1;
  bool known_by_key_ = true;
  std::vector<at::Tensor> written_;
};

}  // namespace anyaccel::backends::sim
