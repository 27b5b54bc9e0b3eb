#include "anyaccel/ops/quantizer.h"

#include <tuple>

#include "anyaccel/ops/call.h"

namespace anyaccel::ops::quantizer {

namespace {

using ops::calling;
using ops::load_op;

using Int = std::int64_t;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Quantize = Pair(const at::Tensor&, Int, Int, bool);
using Dequantize = at::Tensor(const at::Tensor&, const at::Tensor&, Int, Int, bool, at::ScalarType);
using Swizzle = Pair(const at::Tensor&, Int, Int, bool, Int, Int, Int);
using Reduce = Pair(const at::Tensor&, const at::Tensor&, Int, Int, Int, bool, Int);
using DequantizeHalf = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, Int, Int,
                                  Int);

constexpr const char* builder = "QuantizerBuilder";

bool is_asymmetric(QuantizationType type) { return type == QuantizationType::asymmetric; }

Quantized as_quantized(Pair&& pair) {
  return {std::move(std::get<0>(pair)), std::move(std::get<1>(pair))};
}

}  // namespace

Quantized quantize(const at::Tensor& input, Int groups, Int num_bits, QuantizationType type) {
  static const auto op = load_op<Quantize>(builder, "quantizer_quantize");
  return calling("quantizer::quantize", [&] {
    return as_quantized(op.call(input, groups, num_bits, is_asymmetric(type)));
  });
}

at::Tensor dequantize(const Quantized& quantized, Int groups, Int num_bits, QuantizationType type,
                      at::ScalarType dtype) {
  static const auto op = load_op<Dequantize>(builder, "quantizer_dequantize");
  return calling("quantizer::dequantize", [&] {
    return op.call(quantized.codes, quantized.params, groups, num_bits, is_asymmetric(type), dtype);
  });
}

Quantized swizzle_quant(const at::Tensor& input, Int groups, Int num_bits, QuantizationType type,
                        Int pipeline_size, Int nodes, Int devices_per_node) {
  static const auto op = load_op<Swizzle>(builder, "quantizer_swizzle");
  return calling("quantizer::swizzle_quant", [&] {
    return as_quantized(op.call(input, groups, num_bits, is_asymmetric(type), pipeline_size, nodes,
                                devices_per_node));
  });
}

Quantized quantized_reduction(const Quantized& inputs, Int in_groups, Int out_groups, Int num_bits,
                              QuantizationType type, Int devices_per_node) {
  static const auto op = load_op<Reduce>(builder, "quantizer_reduce");
  return calling("quantizer::quantized_reduction", [&] {
    return as_quantized(op.call(inputs.codes, inputs.params, in_groups, out_groups, num_bits,
                                is_asymmetric(type), devices_per_node));
  });
}

at::Tensor dequantize_to_half(const at::Tensor& codes, const at::Tensor& scale,
                              const at::Tensor& min_value, Int num_group, Int group_size,
                              Int num_bits) {
  static const auto op = load_op<DequantizeHalf>(builder, "quantizer_dequantize_half");
  return calling("quantizer::dequantize_to_half",
                 [&] { return op.call(codes, scale, min_value, num_group, group_size, num_bits); });
}

}  // namespace anyaccel::ops::quantizer
