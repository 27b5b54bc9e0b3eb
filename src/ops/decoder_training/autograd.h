// Helpers for the autograd functions of the op's register_*.cpp, the only files that include it.
#pragma once

#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ops/decoder_training/passes.h"
#include "torch/csrc/autograd/autograd_not_implemented_fallback.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Int = std::int64_t;

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

inline OptionalTensor or_nullopt(const Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}
inline Tensor like(const Tensor& tensor) {
  return at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
}
inline Tensor nothing_like(const Tensor& tensor) { return at::empty({0}, tensor.options()); }

}  // namespace
}  // namespace anyaccel::ops
