// Registers torch.ops.anyaccel._nhwc_bias_add for tensors on CUDA devices. Untested on hardware.
#include "kernels/spatial/bias_add_blocks.h"
#include "ops/shared/device_tensors.h"
#include "ops/spatial_inference/arguments.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

Tensor bias_add_cuda(const Tensor& activation, const Tensor& bias, const OptionalTensor& other,
                     const OptionalTensor& other_bias) {
  constexpr const char* where = "nhwc_bias_add";
  const BiasArguments g{activation, bias, other, other_bias};
  check_bias_arguments(g);
  const c10::DeviceGuard guard(activation.device());
  const BiasTensors t(g);
  const bool is_double = activation.scalar_type() == at::kDouble;
  const Element element =
      is_double ? Element::f32 : element_of(where, "the activation", activation);
  const BiasAddArrays arrays{.activation = t.of(t.activation),
                             .bias = t.of(t.bias),
                             .other = t.of(t.other),
                             .other_bias = t.of(t.other_bias),
                             .out = t.out.mutable_data_ptr(),
                             .size = t.activation.numel(),
                             .channels = t.channels()};
  check_launch(where,
               cuda_bias_add(arrays, element, is_double, current_stream(activation.device())));
  return t.out;
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) { m.impl("_nhwc_bias_add", bias_add_cuda); }

}  // namespace
}  // namespace anyaccel::ops
