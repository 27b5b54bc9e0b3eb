#include "llm/quantize/integer_ops.h"

#include <tuple>

#include "anyaccel/ops/call.h"
#include "base/log.h"

namespace anyaccel::llm {

namespace {

constexpr const char* op_builder = "DecoderInferenceBuilder";

using Arguments = std::optional<at::Tensor>;
using Quantize = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, std::int64_t, std::int64_t);
using Dequantize = at::Tensor(const at::Tensor&, const at::Tensor&, const Arguments&, std::int64_t,
                              std::int64_t, c10::ScalarType);
using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const Arguments&, const Arguments&,
                          const Arguments&);

struct IntegerOps {
  c10::TypedOperatorHandle<Quantize> quantize =
      ops::load_op<Quantize>(op_builder, "inference_quantize");
  c10::TypedOperatorHandle<Dequantize> dequantize =
      ops::load_op<Dequantize>(op_builder, "inference_dequantize");
  c10::TypedOperatorHandle<Linear> linear = ops::load_op<Linear>(op_builder, "inference_linear");
};

const std::optional<IntegerOps>& integer_ops() {
  static const std::optional<IntegerOps> made = []() -> std::optional<IntegerOps> {
    try {
      if (ops::has_op(op_builder)) return IntegerOps();
    } catch (const Error& error) {
      log(LogLevel::warning, std::string("matrix products with quantized weights are slower "
                                         "without the op inference_linear: ") +
                                 error.what());
    }
    return std::nullopt;
  }();
  return made;
}

Arguments maybe(const at::Tensor& tensor) {
  return tensor.defined() ? Arguments(tensor) : std::nullopt;
}

}  // namespace

bool has_integer_ops(const at::Tensor& on) {
  return !on.is_meta() && integer_ops().has_value() && ops::has_kernel(integer_ops()->linear, on);
}

QuantizedMatrix quantize_by_op(const at::Tensor& weight, int bits, std::int64_t group) {
  auto [made, scales] = integer_ops()->quantize.call(weight, bits, group);
  return {made, {scales, {}}};
}

at::Tensor dequantize_by_op(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                            std::int64_t count, c10::ScalarType dtype) {
  return integer_ops()->dequantize.call(weight, scales.scales, maybe(scales.zeros), begin, count,
                                        dtype);
}

at::Tensor linear_by_op(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                        const at::Tensor& bias) {
  return integer_ops()->linear.call(x, weight, maybe(scales.scales), maybe(scales.zeros),
                                    maybe(bias));
}

}  // namespace anyaccel::llm
