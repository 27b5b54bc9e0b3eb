// Registers torch.ops.anyaccel.quantizer_* for tensors on CUDA devices. Not run on hardware.
#include <tuple>

#include "kernels/quantization/cuda_integer.h"
#include "ops/quantizer/arguments.h"
#include "ops/shared/device_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

Pair quantize_on(const char* op, const QuantizeGiven& given) {
  check_launch(op, cuda_quantize(given.job, given.groups, current_stream(given.from.device())));
  return {given.codes, given.params};
}

Pair quantize(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric) {
  constexpr const char* op = "quantizer_quantize";
  const c10::DeviceGuard guard(input.device());
  return quantize_on(op, quantize_given(op, input, groups, bits, asymmetric));
}

Pair swizzle(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric, std::int64_t slices,
             std::int64_t nodes, std::int64_t devices) {
  constexpr const char* op = "quantizer_swizzle";
  const c10::DeviceGuard guard(input.device());
  return quantize_on(op, swizzle_given(op, input, groups, bits, asymmetric, {slices, nodes, devices}));
}

Tensor dequantize(const Tensor& data, const Tensor& params, std::int64_t groups, std::int64_t bits, bool asymmetric,
                  at::ScalarType dtype) {
  constexpr const char* op = "quantizer_dequantize";
  const c10::DeviceGuard guard(data.device());
  const auto given = dequantize_given(op, data, params, groups, bits, asymmetric, dtype);
  check_launch(op, cuda_dequantize(given.job, given.out.numel(), current_stream(data.device())));
  return given.out;
}

Pair reduce(const Tensor& data, const Tensor& params, std::int64_t in_groups, std::int64_t out_groups,
            std::int64_t bits, bool asymmetric, std::int64_t devices) {
  constexpr const char* op = "quantizer_reduce";
  const c10::DeviceGuard guard(data.device());
  const auto given = reduce_given(op, data, params, in_groups, out_groups, bits, asymmetric, devices);
  check_launch(op, cuda_reduce(given.job, given.groups, current_stream(data.device())));
  return {given.codes, given.params};
}

Tensor dequantize_half(const Tensor& data, const Tensor& scale, const Tensor& least, std::int64_t groups,
                       std::int64_t group, std::int64_t bits) {
  constexpr const char* op = "quantizer_dequantize_half";
  const c10::DeviceGuard guard(data.device());
  const auto given = dequantize_half_given(op, data, scale, least, groups, group, bits);
  check_launch(op, cuda_dequantize_half(given.job, given.out.numel(), current_stream(data.device())));
  return given.out;
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("quantizer_quantize", quantize);
  m.impl("quantizer_dequantize", dequantize);
  m.impl("quantizer_swizzle", swizzle);
  m.impl("quantizer_reduce", reduce);
  m.impl("quantizer_dequantize_half", dequantize_half);
}

}  // namespace
}  // namespace anyaccel::ops
