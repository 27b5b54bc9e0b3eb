// Registers torch.ops.anyaccel._sparse_attention_* for tensors on CUDA devices. Untested on
// hardware.
#include "ops/sparse_attn/device.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

std::tuple<Tensor, Tensor> forward_cuda(SPARSE_ATTN_GIVEN) {
  const Arguments g{SPARSE_ATTN_PASSED};
  check_types(g);
  check_sizes(g);
  check_together(g);
  const c10::DeviceGuard guard(q.device());
  return sparse_forward_on_device(g, current_stream(q.device()));
}

Grads backward_cuda(const Tensor& grad_out, SPARSE_ATTN_GIVEN, const Tensor& out,
                    const Tensor& stats, bool rpe_grad) {
  const Arguments g{SPARSE_ATTN_PASSED};
  check_types(g);
  check_sizes(g);
  check_together(g);
  check_results(g, grad_out, out, stats);
  const c10::DeviceGuard guard(q.device());
  return sparse_backward_on_device(grad_out, g, out, stats, rpe_grad, current_stream(q.device()));
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("_sparse_attention_forward", forward_cuda);
  m.impl("_sparse_attention_backward", backward_cuda);
}

}  // namespace
}  // namespace anyaccel::ops
