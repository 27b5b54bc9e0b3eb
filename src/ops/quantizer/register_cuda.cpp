// Registers torch.ops.anyaccel.quantizer_* for tensors on CUDA devices. Untested on hardware.
#include <tuple>

#include "kernels/quantization/cuda_integer.h"
#include "ops/quantizer/arguments.h"
#include "ops/shared/device_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

Pair quantize_on(const char* op, const QuantizeArguments& arguments) {
  check_launch(
      op, cuda_quantize(arguments.job, arguments.groups, current_stream(arguments.from.device())));
  return {arguments.codes, arguments.params};
}

Pair quantize(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric) {
  constexpr const char* op = "quantizer_quantize";
  const c10::DeviceGuard guard(input.device());
  return quantize_on(op, quantize_arguments(op, input, groups, bits, asymmetric));
}

Pair swizzle(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric,
             std::int64_t slices, std::int64_t nodes, std::int64_t devices) {
  constexpr const char* op = "quantizer_swizzle";
  const c10::DeviceGuard guard(input.device());
  return quantize_on(
      op, swizzle_arguments(op, input, groups, bits, asymmetric, {slices, nodes, devices}));
}

Tensor dequantize(const Tensor& data, const Tensor& params, std::int64_t groups, std::int64_t bits,
                  bool asymmetric, at::ScalarType dtype) {
  constexpr const char* op = "quantizer_dequantize";
  const c10::DeviceGuard guard(data.device());
  const auto arguments = dequantize_arguments(op, data, params, groups, bits, asymmetric, dtype);
  check_launch(
      op, cuda_dequantize(arguments.job, arguments.out.numel(), current_stream(data.device())));
  return arguments.out;
}

Pair reduce(const Tensor& data, const Tensor& params, std::int64_t in_groups,
            std::int64_t out_groups, std::int64_t bits, bool asymmetric, std::int64_t devices) {
  constexpr const char* op = "quantizer_reduce";
  const c10::DeviceGuard guard(data.device());
  const auto arguments =
      reduce_arguments(op, data, params, in_groups, out_groups, bits, asymmetric, devices);
  check_launch(op, cuda_reduce(arguments.job, arguments.groups, current_stream(data.device())));
  return {arguments.codes, arguments.params};
}

Tensor dequantize_half(const Tensor& data, const Tensor& scale, const Tensor& least,
                       std::int64_t groups, std::int64_t group, std::int64_t bits) {
  constexpr const char* op = "quantizer_dequantize_half";
  const c10::DeviceGuard guard(data.device());
  const auto arguments = dequantize_half_arguments(op, data, scale, least, groups, group, bits);
  check_launch(op, cuda_dequantize_half(arguments.job, arguments.out.numel(),
                                        current_stream(data.device())));
  return arguments.out;
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
