#include "llm/quantize/linear.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <optional>

#include "anyaccel/accelerator.h"
#include "anyaccel/ops/training.h"
#include "llm/quantize/integer_ops.h"

namespace anyaccel::llm {

namespace {

// Number of matrix elements that are dequantized at a time (16 MiB).
constexpr std::int64_t piece_values = 4 << 20;
constexpr std::int64_t quantized_at_once = 1 << 18;
constexpr std::int64_t many_rows = 32;
// Maximum number of rows for which matrix products use the quantized weight directly. With more
// rows, they dequantize it first.
constexpr std::int64_t max_integer_rows = 16;

bool is_int4(const at::Tensor& weight) { return weight.scalar_type() == c10::kByte; }

std::int64_t inputs_of(const at::Tensor& weight) {
  return weight.size(1) * (is_int4(weight) ? 2 : 1);
}

at::Tensor unpack(const at::Tensor& weight, std::int64_t block) {
  const at::Tensor bytes =
      weight.view({weight.size(0), 2 * weight.size(1) / block, block / 4, 2}).transpose(2, 3);
  return at::stack({bytes.bitwise_and(15), bytes.floor_divide(16)}, 3)
      .reshape({weight.size(0), 2 * weight.size(1)});
}

/// Returns whether matrix products with many rows are so slow in this dtype that dequantizing to
/// float32 is faster.
bool is_slow(c10::ScalarType type) {
  if (type != c10::kBFloat16 && type != c10::kHalf) return false;
  return !get_accelerator().dtype_support(type).fast;
}

/// Returns dequantized rows of the weight.
at::Tensor piece_of(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                    std::int64_t count, c10::ScalarType type) {
  if (!scales.scales.defined()) return weight.narrow(0, begin, count).to(type);
  if (has_integer_ops(weight)) return dequantize_by_op(weight, scales, begin, count, type);
  return dequantize(weight, scales, begin, count).to(type);
}

at::Tensor linear_in_pieces(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                            const at::Tensor& bias) {
  const c10::ScalarType type = is_slow(x.scalar_type()) ? c10::kFloat : x.scalar_type();
  const at::Tensor wide = x.to(type);
  const std::int64_t outputs = weight.size(0);
  const std::int64_t step = std::max<std::int64_t>(64, piece_values / inputs_of(weight));
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    std::optional<at::Tensor> added;
    if (bias.defined()) added = bias.narrow(0, begin, count).to(type);
    return at::linear(wide, piece_of(weight, scales, begin, count, type), added);
  };
  if (step >= outputs) return part(0, outputs).to(x.scalar_type());
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = outputs;
  at::Tensor out = at::empty(shape, x.options());
  for (std::int64_t begin = 0; begin < outputs; begin += step) {
    const std::int64_t count = std::min(step, outputs - begin);
    out.narrow(-1, begin, count).copy_(part(begin, count));
  }
  return out;
}

/// The gradient of x: gradient * weight, in chunks of rows of the weight.
at::Tensor product_in_pieces(const at::Tensor& gradient, const at::Tensor& weight,
                             const Scales& scales) {
  const c10::ScalarType type =
      is_slow(gradient.scalar_type()) ? c10::kFloat : gradient.scalar_type();
  const std::int64_t outputs = weight.size(0), inputs = inputs_of(weight);
  const at::Tensor rows = gradient.to(type).reshape({-1, outputs});
  const std::int64_t step = std::max<std::int64_t>(64, piece_values / inputs);
  at::Tensor sum;
  for (std::int64_t begin = 0; begin < outputs; begin += step) {
    const std::int64_t count = std::min(step, outputs - begin);
    const at::Tensor part = rows.narrow(1, begin, count);
    const at::Tensor values = piece_of(weight, scales, begin, count, type);
    // Add in float32 to limit rounding errors.
    if (begin == 0)
      sum = count == outputs ? at::mm(part, values) : at::mm(part, values).to(c10::kFloat);
    else
      sum.add_(at::mm(part, values));
  }
  std::vector<std::int64_t> shape = gradient.sizes().vec();
  shape.back() = inputs;
  return sum.to(gradient.scalar_type()).view(shape);
}

/// A product with a quantized weight that saves only the weight for the backward pass, not its
/// dequantized values.
class QuantizedLinear : public torch::autograd::Function<QuantizedLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const Scales& scales) {
    context->save_for_backward({weight, scales.scales, scales.zeros});
    return linear_in_pieces(x, weight, scales, {});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {product_in_pieces(gradients[0], saved[0], {saved[1], saved[2]}), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor linear_gradient(const at::Tensor& gradient, const at::Tensor& weight,
                           const Scales& scales) {
  if (!scales.scales.defined() && !is_slow(weight.scalar_type())) return gradient.matmul(weight);
  return product_in_pieces(gradient, weight, scales);
}

QuantizedMatrix quantize(const at::Tensor& weight, int bits, std::int64_t group) {
  if (has_integer_ops(weight)) return quantize_by_op(weight.contiguous(), bits, group);
  // Quantize in chunks that fit in the CPU cache: each element is read about thirty times.
  const std::int64_t step = std::max<std::int64_t>(1, quantized_at_once / weight.size(1));
  if (weight.size(0) > step) {
    std::vector<at::Tensor> weights, scales;
    for (std::int64_t begin = 0; begin < weight.size(0); begin += step) {
      const QuantizedMatrix piece =
          quantize(weight.narrow(0, begin, std::min(step, weight.size(0) - begin)), bits, group);
      weights.push_back(piece.weight);
      scales.push_back(piece.scales.scales);
    }
    return {at::cat(weights), {at::cat(scales), {}}};
  }
  const at::Tensor groups = weight.to(c10::kFloat).view({weight.size(0), -1, group});
  const at::Tensor greatest = groups.abs().amax(-1, /*keepdim=*/true);
  const auto inverse = [](const at::Tensor& scale) {
    return at::where(scale.eq(0), at::zeros_like(scale), scale.reciprocal());
  };
  if (bits == 8) {
    const at::Tensor scale = greatest.div(127.0);
    const at::Tensor q = groups.mul(inverse(scale)).round_().clamp_(-127, 127).to(c10::kChar);
    return {q.view(weight.sizes()), {scale.squeeze(-1).contiguous(), {}}};
  }
  const at::Tensor low = groups.amin(-1, true), high = groups.amax(-1, true);
  const at::Tensor farthest = at::where(low.neg().ge(high), low, high);
  at::Tensor best_q, best_scale, best_error;
  for (const double share : std::to_array({1.0, 0.96, 0.92, 0.88, 0.84})) {
    const at::Tensor scale = farthest.mul(share / -8.0);
    const at::Tensor q = groups.mul(inverse(scale)).round_().add_(8).clamp_(0, 15);
    const at::Tensor error = q.sub(8).mul_(scale).sub_(groups).square_().sum(-1, true);
    if (!best_q.defined()) {
      best_q = q, best_scale = scale, best_error = error;
      continue;
    }
    const at::Tensor better = error.lt(best_error);
    best_q = at::where(better, q, best_q);
    best_scale = at::where(better, scale, best_scale);
    best_error = at::where(better, error, best_error);
  }
  return {pack_int4(best_q.to(c10::kByte).view(weight.sizes()), group),
          {best_scale.squeeze(-1).contiguous(), {}}};
}

at::Tensor dequantize(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                      std::int64_t count) {
  if (has_integer_ops(weight)) return dequantize_by_op(weight, scales, begin, count, c10::kFloat);
  const at::Tensor factor = scales.scales.narrow(0, begin, count).unsqueeze(-1);
  const std::int64_t groups = scales.scales.size(1), inputs = inputs_of(weight);
  at::Tensor q = weight.narrow(0, begin, count);
  if (is_int4(weight)) q = unpack(q, int4_block(inputs / groups));
  at::Tensor values = q.to(c10::kFloat).view({count, groups, inputs / groups});
  if (is_int4(weight)) {
    values = scales.zeros.defined()
                 ? values.sub(scales.zeros.narrow(0, begin, count).unsqueeze(-1).to(c10::kFloat))
                 : values.sub(8);
  }
  return values.mul(factor).view({count, inputs});
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                  const at::Tensor& bias) {
  const std::int64_t rows = x.numel() / std::max<std::int64_t>(1, x.size(-1));
  const bool gradient = c10::GradMode::is_enabled();
  const bool integers = scales.scales.defined();
  if (integers && !gradient && rows <= max_integer_rows && has_integer_ops(weight))
    return linear_by_op(x, weight, scales, bias);
  if (integers && gradient) {
    const at::Tensor out = QuantizedLinear::apply(x, weight, scales);
    return bias.defined() ? out.add(bias) : out;
  }
  if (integers || (!gradient && rows >= many_rows && is_slow(weight.scalar_type())))
    return linear_in_pieces(x, weight, scales, bias);
  if (gradient) return ops::training_linear(x, weight, bias);
  return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

at::Tensor linear(const at::Tensor& x, const std::vector<at::Tensor>& parts,
                  const at::Tensor& bias) {
  std::vector<at::Tensor> out;
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    out.push_back(linear(x, part, {}, bias.defined() ? bias.narrow(0, begin, part.size(0)) : bias));
    begin += part.size(0);
  }
  return at::cat(out, -1);
}

}  // namespace anyaccel::llm
