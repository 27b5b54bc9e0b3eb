// Registers the forward and backward ops of torch.ops.anyaccel.<ANYACCEL_TRANSFORMER_NAME> for
// tensors on CUDA devices. Untested on hardware. Included only by an op's register_cuda.cpp.
#include "ops/transformer/device_layer.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

#define GIVEN ANYACCEL_TRANSFORMER_GIVEN
#define PASSED ANYACCEL_TRANSFORMER_PASSED

TransformerForward forward_cuda(GIVEN, bool keep) {
  const TransformerArguments g{PASSED};
  check_transformer(g);
  check_transformer_sizes(g);
  const c10::DeviceGuard guard(input.device());
  return device_transformer_forward(g, keep, current_stream(input.device()));
}

TransformerBackward backward_cuda(const Tensor& grad_out, GIVEN, const Tensor& output,
                                  const Tensor& inp_norm, const Tensor& qkv,
                                  const Tensor& attn_stats, const Tensor& attn_out,
                                  const Tensor& add_res, const Tensor& ff1_inp,
                                  const Tensor& gelu_inp, const Tensor& ff2_inp,
                                  const Tensor& attn_norm_stats, const Tensor& norm_stats) {
  const TransformerArguments g{PASSED};
  const TransformerKept kept{inp_norm, qkv,      attn_stats, attn_out,        add_res,
                             ff1_inp,  gelu_inp, ff2_inp,    attn_norm_stats, norm_stats};
  check_transformer(g);
  check_transformer_sizes(g);
  check_transformer_kept(g, grad_out, output, kept);
  const c10::DeviceGuard guard(input.device());
  return device_transformer_backward(g, grad_out, output, kept, current_stream(input.device()));
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_forward", forward_cuda);
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_backward", backward_cuda);
}

}  // namespace
}  // namespace anyaccel::ops
