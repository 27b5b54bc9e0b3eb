// Forward and backward passes on host memory. register_rows.cpp and register_products.cpp register
// them. The functions check sizes and throw argument errors.
#pragma once

#include <tuple>
#include <type_traits>

#include "ATen/core/Tensor.h"
#include "kernels/simd/element.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

inline bool is_given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

/// Compute dtype for a dtype in memory.
inline at::ScalarType real_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

/// Calls function(S{}) with the kernels' element type for the tensor's dtype.
template <typename Function>
auto for_element(const char* where, const Tensor& tensor, const Function& function) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return function(float{});
    case at::kBFloat16: return function(Bf16{});
    case at::kHalf: return function(Fp16{});
    case at::kDouble: return function(double{});
    default:
      fail_argument(where, "the dtype is not supported", words(tensor),
                    "float32, bfloat16, float16 or float64");
  }
}

/// Memory of a tensor, as the kernels' element type. Null for an undefined tensor.
template <typename S>
const S* read(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const S*>(tensor.const_data_ptr()) : nullptr;
}
template <typename S>
S* write(const Tensor& tensor) {
  return tensor.defined() ? static_cast<S*>(tensor.mutable_data_ptr()) : nullptr;
}

/// Checks that `tensor` is a dense tensor in host memory with the dtype of `first`.
inline void check_like(const char* where, const char* name, const Tensor& tensor,
                       const Tensor& first) {
  check_dense_on(where, name, tensor, first);
  check_on_host(where, name, tensor);
  if (tensor.scalar_type() != first.scalar_type())
    fail_argument(where, std::string(name) + " has a different dtype", words(tensor), words(first));
}

// rows.cpp

/// Returns the norm, the sum (empty without a residual) and 1 / rms of each row.
Three rms_norm_forward(const Tensor& x, const OptionalTensor& residual, const Tensor& weight,
                       double eps, bool plus_one);
/// Returns the gradients of the sum and of the weight.
Two rms_norm_backward(const OptionalTensor& grad_out, const OptionalTensor& grad_sum,
                      const Tensor& sum, const Tensor& weight, const Tensor& rstd, bool plus_one,
                      bool weight_grad);

Tensor gated_forward(const Tensor& gate_up, std::int64_t activation);
Tensor gated_backward(const Tensor& grad_out, const Tensor& gate_up, std::int64_t activation);

Three rotary_forward(const Tensor& qkv, const Tensor& cos, const Tensor& sin, std::int64_t heads,
                     std::int64_t kv_heads);
Tensor rotary_backward(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v,
                       const Tensor& cos, const Tensor& sin);

// attention.cpp

/// Returns the output and the softmax statistics, [batch, heads, time, 2].
Two attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                      std::int64_t window, const OptionalTensor& starts);
Three attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                         double scale, std::int64_t window, const OptionalTensor& starts,
                         const Tensor& out, const Tensor& stats);

// products.cpp

/// Returns whether torch has fast matrix products for this dtype on this processor.
bool multiplies_fast(at::ScalarType type);

/// x weight^T + bias, computed in float32.
Tensor wide_linear_forward(const Tensor& x, const Tensor& weight, const OptionalTensor& bias);
/// Returns the gradients of x, weight and bias. Gradients that are not requested are empty.
Three wide_linear_backward(const Tensor& grad_out, const Tensor& x, const Tensor& weight,
                           bool x_grad, bool weight_grad, bool bias_grad);

/// Returns the loss and the gradients of `hidden` and `weight`, which are empty if not requested.
Three cross_entropy_forward(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            std::int64_t ignore_index, double divisor, double softcap,
                            bool hidden_grad, bool weight_grad);

}  // namespace anyaccel::ops
