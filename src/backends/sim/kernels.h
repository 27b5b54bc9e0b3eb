// Functions that the simulator's kernels share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <memory>
#include <vector>

#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

/// Creates a library of kernels. It is never destroyed, because that would unregister them.
torch::Library& make_library(const char* name_space, c10::DispatchKey key);
/// The library of torch's own ops for the simulated device.
torch::Library& device_library();

/// A host tensor that aliases the bytes of a device tensor. Only for kernels: accessing it outside
/// the stream's order is a data race. Does not keep the memory alive.
at::Tensor alias(const at::Tensor& tensor);
/// Return a host tensor with the same data for a stream's worker. The worker must not release a
/// tensor that has a Python object: it would wait for the GIL, which a thread that waits for the
/// worker may hold.
at::Tensor without_object(const at::Tensor& tensor);
/// Like alias(tensor), with the given sizes and strides.
at::Tensor alias(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

inline bool on_device(const at::Tensor& tensor) noexcept {
  return tensor.defined() && tensor.device().type() == runtime().type;
}

/// Allocate device tensors. Throw for types that SIM_DTYPES excludes.
at::Tensor empty_strided(int device, at::IntArrayRef sizes, at::IntArrayRef strides,
                         c10::ScalarType dtype);
at::Tensor empty(int device, at::IntArrayRef sizes, c10::ScalarType dtype,
                 std::optional<c10::MemoryFormat> format = std::nullopt);
void check_dtype(c10::ScalarType dtype);

/// Resizes a storage to `bytes` bytes. Copies the old bytes that fit, in stream order.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes);
/// Sets a tensor's sizes and strides, and enlarges its storage if necessary.
void resize(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

Operand operand(const at::Tensor& tensor, bool written);

/// Runs `op` with the device arguments on top of the stack. Used for every op without an explicit
/// kernel.
void run_op(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Throws if an op returned a tensor that the device cannot hold: neither dense nor sparse COO.
void check_layout(const std::string& op, const at::Tensor& value);

/// Waits for `stream`, so that the host can read its results. Throws while a graph captures the
/// stream.
void drain(SimStream& stream, const char* op);

/// A task that calls a function.
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
