// What the simulator's kernels share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <memory>
#include <vector>

#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

/// A library of kernels; never destroyed, as torch is not told of an end.
torch::Library& make_library(const char* name_space, c10::DispatchKey key);
/// That of torch's own ops for the simulated device.
torch::Library& device_library();

/// A host tensor over the same bytes as a device tensor's, for kernels alone: touching it before
/// the stream gets there is a race. Keeps no reference.
at::Tensor alias(const at::Tensor& tensor);
/// The same with another geometry.
at::Tensor alias(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

inline bool on_device(const at::Tensor& tensor) noexcept {
  return tensor.defined() && tensor.device().type() == runtime().type;
}

/// Device tensors. Throw for types that SIM_DTYPES leaves out.
at::Tensor empty_strided(int device, at::IntArrayRef sizes, at::IntArrayRef strides,
                         c10::ScalarType dtype);
at::Tensor empty(int device, at::IntArrayRef sizes, c10::ScalarType dtype,
                 std::optional<c10::MemoryFormat> format = std::nullopt);
void check_dtype(c10::ScalarType dtype);

/// Gives a storage `bytes` bytes; what fits of the old ones is copied in stream order.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes);
/// Gives a tensor that geometry, and its storage as much memory as that needs.
void resize(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

Operand operand(const at::Tensor& tensor, bool written);

/// Runs `op` for arguments on the device, on top of the stack: what every op without a kernel of
/// its own does.
void run_op(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Waits for the current stream before the host reads what it wrote. Throws while a graph captures
/// it.
void drain(SimStream& stream, const char* op);

/// A task from a function; `again` as in Task::run.
template <typename Function>
class FunctionTask final : public Task {
 public:
  FunctionTask(const char* name, Function function) : Task(name), function_(std::move(function)) {}
  void run(bool /*again*/) override { function_(); }

 private:
  Function function_;
};

template <typename Function>
void launch_function(SimStream& stream, const char* op, c10::ArrayRef<Operand> operands,
                     Function function) {
  launch(stream, std::make_unique<FunctionTask<Function>>(op, std::move(function)),
         {.op = op, .operands = operands});
}

}  // namespace anyaccel::backends::sim
