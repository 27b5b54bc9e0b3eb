// Tensors of an attention kernel launch: their lifetimes and memory layouts.
#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "ATen/ops/ne.h"
#include "kernels/attention/attention_launch.h"
#include "ops/shared/device_tensors.h"

namespace anyaccel::ops {

/// Arguments of an attention kernel launch. Tensors are [batch, heads, length, dim] with any
/// strides. If the last dimension of an input is not contiguous, the input is copied.
template <typename Real>
class AttentionTensors {
 public:
  static constexpr auto real_type = c10::CppTypeToScalarType<Real>::value;
  AttentionLaunch<Real> launch{};

  AttentionTensors(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t dim,
                   at::ScalarType type)
      : type_(type) {
    launch.batch = batch;
    launch.heads = heads;
    launch.length = length;
    launch.dim = static_cast<int>(dim);
    launch.vectors = dim * static_cast<std::int64_t>(c10::elementSize(type)) % 16 == 0;
  }
  AttentionTensors(const AttentionTensors&) = delete;
  AttentionTensors& operator=(const AttentionTensors&) = delete;

  /// Keeps a tensor alive until the launch. The tensor may be freed after the launch, because
  /// torch's allocator reuses the memory only for later work on the same stream.
  const at::Tensor& kept(const at::Tensor& tensor) {
    keep_.push_back(tensor);
    return keep_.back();
  }

  HeadArray<const void*> reads(const at::Tensor& tensor) {
    const at::Tensor rows =
        kept(tensor.size(3) <= 1 || tensor.stride(3) == 1 ? tensor : tensor.contiguous());
    const HeadArray<const void*> out{rows.const_data_ptr(), rows.stride(0), rows.stride(1),
                                     rows.stride(2)};
    const auto whole = [&](std::int64_t step) {
      return step * static_cast<std::int64_t>(c10::elementSize(type_)) % 16 == 0;
    };
    launch.vectors = launch.vectors && whole(out.batch) && whole(out.head) && whole(out.row) &&
                     reinterpret_cast<std::uintptr_t>(out.at) % 16 == 0;
    return out;
  }
  static HeadArray<void*> writes(const at::Tensor& tensor) {
    return {const_cast<void*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1),
            tensor.stride(2)};
  }

  /// Returns a bias that is added to the scores, or if `hides` is set, a mask in which 0 masks a
  /// key. The tensor is expanded to [batch, heads, length, length].
  AttentionBias added(const at::Tensor& tensor, bool hides) {
    at::Tensor mask = tensor;
    BiasKind kind = BiasKind::real;
    if (hides) {
      if (mask.scalar_type() != at::kBool) mask = at::ne(mask, 0);
      kind = BiasKind::seen;
    } else if (mask.scalar_type() == type_) {
      kind = type_ == real_type ? BiasKind::real : BiasKind::element;
    } else {
      mask = mask.to(real_type);
    }
    mask = kept(mask).expand({launch.batch, launch.heads, launch.length, launch.length});
    return {mask.const_data_ptr(), mask.stride(0), mask.stride(1),
            mask.stride(2),        mask.stride(3), kind};
  }

  void forward(const char* where, void* stream) const {
    if constexpr (std::is_same_v<Real, double>)
      check_launch(where, cuda_attention_forward(launch, stream));
    else
      check_launch(where, cuda_attention_forward(launch, element(), stream));
  }
  void backward(const char* where, void* stream) const {
    if constexpr (std::is_same_v<Real, double>)
      check_launch(where, cuda_attention_backward(launch, stream));
    else
      check_launch(where, cuda_attention_backward(launch, element(), stream));
  }

 private:
  Element element() const {
    return type_ == at::kFloat      ? Element::f32
           : type_ == at::kBFloat16 ? Element::bf16
                                    : Element::fp16;
  }

  at::ScalarType type_;
  std::vector<at::Tensor> keep_;
};

}  // namespace anyaccel::ops
