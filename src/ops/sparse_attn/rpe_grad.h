// Gradient of relative position embeddings. Batch entries and heads may share the embeddings.
#pragma once

#include "ATen/ops/zeros.h"
#include "ops/sparse_attn/arguments.h"

namespace anyaccel::ops {
namespace {

/// During the computation, the gradient has the batch entries and heads of rpe, and full size in
/// the other dimensions. All heads that share a slice add to the same part of the gradient.
template <typename T>
class RpeGrad {
 public:
  RpeGrad(const Arguments& g, bool wanted, const at::TensorOptions& options)
      : heads_(g.q.size(1)), length_(g.q.size(2)), wanted_(wanted) {
    if (!wanted) return;
    const Tensor& rpe = *g.rpe;
    batches_ = rpe.dim() > 3 ? rpe.size(0) : 1;
    rpe_heads_ = rpe.dim() > 2 ? rpe.size(-3) : 1;
    grad_ = at::zeros({batches_, rpe_heads_, length_, length_}, options);
    at_ = grad_.template mutable_data_ptr<T>();
  }
  std::int64_t slices(std::int64_t all_heads) const {
    return wanted_ ? batches_ * rpe_heads_ : all_heads;
  }
  std::int64_t slice(std::int64_t head) const {
    if (!wanted_) return head;
    return (batches_ > 1 ? head / heads_ * rpe_heads_ : 0) + (rpe_heads_ > 1 ? head % heads_ : 0);
  }
  T* of(std::int64_t slice) const { return wanted_ ? at_ + slice * length_ * length_ : nullptr; }
  Tensor result(const Tensor& rpe) const {
    return grad_.sum_to_size(rpe.sizes()).to(rpe.scalar_type());
  }

 private:
  std::int64_t heads_, length_, batches_ = 1, rpe_heads_ = 1;
  bool wanted_;
  Tensor grad_;
  T* at_ = nullptr;
};

}  // namespace
}  // namespace anyaccel::ops
