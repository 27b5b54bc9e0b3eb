// Checks for tensor arguments, mostly for tensors in host memory.
#pragma once

#include <cmath>
#include <sstream>

#include "ATen/core/Tensor.h"
#include "kernels/simd/element.h"
#include "ops/shared/check.h"

namespace anyaccel::ops {

inline std::string words(const at::Tensor& tensor) {
  std::ostringstream out;
  if (!tensor.defined()) return "none";
  out << tensor.scalar_type() << " ";
  if (!tensor.is_meta()) out << tensor.sizes() << " ";
  out << "on " << tensor.device();
  return out.str();
}

/// Returns the element type of a tensor, which must be float32, bfloat16 or float16.
inline Element element_of(std::string_view where, const char* name, const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return Element::f32;
    case at::kBFloat16: return Element::bf16;
    case at::kHalf: return Element::fp16;
    default:
      fail_argument(where, std::string("the dtype of ") + name + " is not supported", words(tensor),
                    "float32, bfloat16 or float16");
  }
}

/// Checks that `tensor` is in host memory. Do not use it with meta tensors.
inline void check_on_host(std::string_view where, const char* name, const at::Tensor& tensor) {
  if (!tensor.is_cpu())
    fail_argument(where, std::string(name) + " is not in host memory", words(tensor),
                  "a tensor on the device type CPU");
}

/// Checks that `tensor` is dense and on the device of `first`.
inline void check_dense_on(const char* where, const char* name, const at::Tensor& tensor,
                           const at::Tensor& first) {
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    fail_argument(where, std::string(name) + " is not a dense tensor", words(tensor),
                  "a dense tensor");
  if (tensor.device() != first.device())
    fail_argument(where, std::string(name) + " is on a different device", words(tensor),
                  words(first));
}

/// Checks that `tensor` has the shape and memory layout of `params`, and that the layout has no
/// gaps.
inline void check_shape(std::string_view where, const char* name, const at::Tensor& tensor,
                        const at::Tensor& params) {
  if (tensor.sizes() != params.sizes())
    fail_argument(where,
                  std::string("the shape of ") + name + " differs from that of the parameters",
                  words(tensor), words(params));
  if (tensor.is_contiguous() && params.is_contiguous()) return;
  if (tensor.strides() != params.strides() || !params.is_non_overlapping_and_dense())
    fail_argument(where,
                  std::string(name) + " differs from the parameters in memory layout, or has gaps",
                  "strides " + c10::str(tensor.strides()), "contiguous tensors",
                  "call contiguous() and copy the result back");
}

/// Checks a tensor that belongs to `params`: it must be dense, in host memory, and have the same
/// shape and memory layout. If `on_host` is false (for meta tensors, whose shapes may be symbolic),
/// only checks that it is dense.
inline void check_beside(std::string_view where, const char* name, const at::Tensor& tensor,
                         const at::Tensor& params, bool on_host) {
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    fail_argument(where, std::string(name) + " is not a dense tensor", words(tensor),
                  "a dense tensor like the parameters");
  if (!on_host) return;
  check_on_host(where, name, tensor);
  check_shape(where, name, tensor, params);
}

/// Returns the element type of a state or gradient, which must be float32 or that of the
/// parameters.
inline Element element_beside(std::string_view where, const char* name, const at::Tensor& tensor,
                              Element params) {
  const Element element = element_of(where, name, tensor);
  if (element != Element::f32 && element != params)
    fail_argument(where,
                  std::string("the dtype of ") + name + " does not match that of the parameters",
                  words(tensor), "float32 or the parameters' dtype");
  return element;
}

/// Returns the memory of a tensor that an op changes in place. Bumps the tensor's version, so that
/// a backward pass that has saved the tensor fails instead of reading changed values.
inline void* changed_memory(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  return tensor.mutable_data_ptr();
}

inline void check_number(std::string_view where, const char* name, double value, bool right,
                         const char* want) {
  if (!right || !std::isfinite(value))
    fail_argument(where, std::string(name) + " is out of range", std::to_string(value), want);
}

inline void check_beta(std::string_view where, const char* name, double value) {
  check_number(where, name, value, value >= 0 && value < 1, "0 <= beta < 1");
}

inline void check_step(std::string_view where, std::int64_t step, std::int64_t first) {
  if (step < first)
    fail_argument(where, "the step is out of range", std::to_string(step),
                  std::to_string(first) + " or more");
}

inline void check_not_negative(std::string_view where, const char* name, double value) {
  check_number(where, name, value, value >= 0, "0 or more");
}

}  // namespace anyaccel::ops
