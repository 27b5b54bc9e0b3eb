#include "anyaccel/ops/fp_quantizer.h"

#include "anyaccel/ops/call.h"

namespace anyaccel::ops::fp_quantizer {

namespace {

using ops::calling;
using ops::load_op;

using Int = std::int64_t;
using Quantize = void(const at::Tensor&, const at::Tensor&, Int, Int, Int, bool, Int);
using Dequantize = void(const at::Tensor&, const at::Tensor&, Int, Int, Int);
using Select = void(const at::Tensor&, const at::Tensor&, const at::Tensor&, Int, Int, Int);

constexpr const char* builder = "FPQuantizerBuilder";

}  // namespace

void quantize(const at::Tensor& out, const at::Tensor& val, Int group_size,
              bool stochastic_rounding, Int q_bits, Int q_mantisa_bits, Int seed) {
  static const auto op = load_op<Quantize>(builder, "fp_quantizer_quantize");
  calling("fp_quantizer::quantize", [&] {
    op.call(out, val, group_size, q_bits, q_mantisa_bits, stochastic_rounding, seed);
  });
}

void dequantize(const at::Tensor& val, const at::Tensor& val_q, Int group_size, Int q_mantisa_bits,
                Int q_exponent_bits) {
  static const auto op = load_op<Dequantize>(builder, "fp_quantizer_dequantize");
  calling("fp_quantizer::dequantize",
          [&] { op.call(val, val_q, group_size, q_mantisa_bits, q_exponent_bits); });
}

void selective_dequantize(const at::Tensor& val, const at::Tensor& val_q, const at::Tensor& indexes,
                          Int group_size, Int q_mantisa_bits, Int q_exponent_bits) {
  static const auto op = load_op<Select>(builder, "fp_quantizer_selective_dequantize");
  calling("fp_quantizer::selective_dequantize",
          [&] { op.call(val, val_q, indexes, group_size, q_mantisa_bits, q_exponent_bits); });
}

}  // namespace anyaccel::ops::fp_quantizer
