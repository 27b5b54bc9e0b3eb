// Registers torch.ops.anyaccel._evoformer_attention_* for tensors on CUDA devices. Untested on
// hardware.
#include "ATen/TensorOperators.h"
#include "kernels/attention/evoformer_blocks.h"
#include "ops/evoformer_attn/arguments.h"
#include "ops/shared/device_tensors.h"
#include "ops/shared/empty.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

/// Keeps the tensors of a launch alive, and converts them to the memory layout that the kernels
/// require.
class Launch {
 public:
  Launch(const EvoformerArguments& g, const Tensor& out, const Tensor& lse)
      : arguments_(g), q_(five(g.q)), k_(five(g.k)), sizes_(q_, k_), out_(out), lse_(lse) {}

  const EvoformerSizes& sizes() const { return sizes_; }

  template <typename Real>
  EvoformerLaunch<Real> make() {
    EvoformerLaunch<Real> out{};
    out.q = array<const void*>(q_);
    out.k = array<const void*>(k_);
    out.v = array<const void*>(five(arguments_.v));
    if (is_given(arguments_.bias1)) out.bias1 = array<const void*>(five(*arguments_.bias1));
    if (is_given(arguments_.bias2)) {
      const Tensor bias = kept(five(*arguments_.bias2));
      out.bias2 = {bias.const_data_ptr(), step(bias, 0), 0, bias.stride(3), step(bias, 2)};
    }
    out.out = array<void*>(five(out_));
    out.lse = {const_cast<Real*>(lse_.const_data_ptr<Real>()), sizes_.entries * lse_.stride(0),
               lse_.stride(0), 1, lse_.stride(1)};
    out.batch = sizes_.batch;
    out.entries = sizes_.entries;
    out.queries = sizes_.queries;
    out.keys = sizes_.keys;
    out.heads = sizes_.heads;
    out.dim = sizes_.dim;
    out.scale = static_cast<Real>(arguments_.factor());
    return out;
  }

  template <typename Real>
  EvoformerLaunch<Real> make(const EvoformerBackward& b, const Tensor& rows) {
    EvoformerLaunch<Real> out = make<Real>();
    out.grad = array<const void*>(five(b.grad));
    out.dq = array<void*>(five(b.dq));
    out.dk = array<void*>(five(b.dk));
    out.dv = array<void*>(five(b.dv));
    if (is_given(b.dbias1)) out.dbias1 = b.dbias1->mutable_data_ptr<Real>();
    if (is_given(b.dbias2)) out.dbias2 = b.dbias2->mutable_data_ptr<Real>();
    out.rows = rows.mutable_data_ptr<Real>();
    return out;
  }

 private:
  const Tensor& kept(const Tensor& tensor) {
    keep_.push_back(tensor);
    return keep_.back();
  }
  static std::int64_t step(const Tensor& tensor, int dim) {
    return tensor.size(dim) == 1 ? 0 : tensor.stride(dim);
  }
  template <typename Pointer>
  EvoformerArray<Pointer> array(const Tensor& tensor) {
    kept(tensor);
    return {const_cast<void*>(tensor.const_data_ptr()), step(tensor, 0), step(tensor, 1),
            tensor.stride(2), step(tensor, 3)};
  }

  const EvoformerArguments& arguments_;
  Tensor q_, k_;
  EvoformerSizes sizes_;
  const Tensor &out_, &lse_;
  std::vector<Tensor> keep_;
};

void forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& bias1,
                  const OptionalTensor& bias2, std::optional<double> scale, const Tensor& out,
                  const Tensor& lse) {
  const EvoformerArguments g{q, k, v, bias1, bias2, scale};
  check_arguments(g);
  check_result("the result", out, q, q.scalar_type());
  const c10::DeviceGuard guard(q.device());
  Launch launch(g, out, lse);
  check_lse(lse, launch.sizes(), real_type(q), q);
  changed_memory(out);
  changed_memory(lse);
  void* const stream = current_stream(q.device());
  check_launch(evoformer_where,
               q.scalar_type() == at::kDouble
                   ? cuda_evoformer_forward(launch.make<double>(), stream)
                   : cuda_evoformer_forward(launch.make<float>(),
                                            element_of(evoformer_where, "the query", q), stream));
  fill_end(lse, launch.sizes().queries);
}

void backward_cuda(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const OptionalTensor& bias1,
                   const OptionalTensor& bias2, std::optional<double> scale, const Tensor& dq,
                   const Tensor& dk, const Tensor& dv, const OptionalTensor& dbias1,
                   const OptionalTensor& dbias2) {
  const EvoformerArguments g{q, k, v, bias1, bias2, scale};
  const EvoformerBackward b{grad, out, lse, dq, dk, dv, dbias1, dbias2};
  check_arguments(g);
  check_backward(g, b);
  const c10::DeviceGuard guard(q.device());
  Launch launch(g, out, lse);
  check_lse(lse, launch.sizes(), real_type(q), q);
  for (const Tensor* tensor : {&dq, &dk, &dv}) changed_memory(*tensor);
  for (const OptionalTensor* tensor : {&dbias1, &dbias2})
    if (is_given(*tensor)) changed_memory(**tensor);
  // The tensor is freed before the kernels have run. This is safe, because torch's allocator reuses
  // the memory only for later work on the same stream.
  const Tensor rows = empty({3, launch.sizes().all_heads(), launch.sizes().queries},
                            q.options().dtype(real_type(q)).requires_grad(false));
  void* const stream = current_stream(q.device());
  check_launch(evoformer_where,
               q.scalar_type() == at::kDouble
                   ? cuda_evoformer_backward(launch.make<double>(b, rows), stream)
                   : cuda_evoformer_backward(launch.make<float>(b, rows),
                                             element_of(evoformer_where, "the query", q), stream));
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("_evoformer_attention_into", forward_cuda);
  m.impl("_evoformer_attention_backward_into", backward_cuda);
}

}  // namespace
}  // namespace anyaccel::ops
