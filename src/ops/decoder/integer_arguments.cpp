#include "ops/decoder/integer_arguments.h"

#include "ATen/TensorOperators.h"
#include "ops/shared/empty.h"

namespace anyaccel::ops {
namespace {

void check_weight(const char* op, const Tensor& weight, std::int64_t bits, std::int64_t group) {
  if (weight.dim() != 2 || !weight.is_contiguous())
    fail_argument(op, "weight is not a contiguous matrix", words(weight), "[outputs, inputs]");
  if (bits != 4 && bits != 8) fail_argument(op, "unsupported bits", std::to_string(bits), "4 or 8");
  if (group < 32 || group % 32 || weight.sym_size(1).guard_int(__FILE__, __LINE__) % group)
    fail_argument(op, "group is out of range", std::to_string(group),
                  "a multiple of 32 that divides the inputs");
}

}  // namespace

std::tuple<Tensor, Tensor> quantized_like(const Tensor& weight, std::int64_t bits,
                                          std::int64_t group) {
  constexpr const char* op = "inference_quantize";
  check_weight(op, weight, bits, group);
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const auto options = weight.options();
  return {empty({outputs, bits == 8 ? inputs : inputs / 2},
                options.dtype(bits == 8 ? at::kChar : at::kByte)),
          empty({outputs, inputs / group}, options.dtype(at::kFloat))};
}

Tensor dequantized_like(const Tensor& weight, std::int64_t count, at::ScalarType dtype) {
  const std::int64_t inputs = weight.size(1) * (weight.scalar_type() == at::kByte ? 2 : 1);
  return empty({count, inputs}, weight.options().dtype(dtype));
}

Matrix dequantize_arguments(const Tensor& weight, const Tensor& scales, const Arguments& zeros,
                            std::int64_t begin, std::int64_t count) {
  constexpr const char* op = "inference_dequantize";
  const Matrix m = make_matrix(op, "weight", weight, scales, zeros, weight);
  if (m.group == 0)
    fail_argument(op, "weight is not an integer tensor", words(weight),
                  "int8, or uint8 with two values each");
  if (begin < 0 || count < 0 || begin > m.outputs - count)
    fail_argument(op, "the rows are out of range",
                  std::to_string(count) + " from " + std::to_string(begin),
                  "rows of " + std::to_string(m.outputs));
  return m;
}

Tensor product_like(const Tensor& x, const Tensor& weight) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return empty(sizes, x.options());
}

LinearArguments linear_arguments(const Tensor& given_x, const Tensor& weight,
                                 const Arguments& scales, const Arguments& zeros,
                                 const Arguments& bias) {
  constexpr const char* op = "inference_linear";
  const Matrix m = make_matrix(op, "weight", weight, scales, zeros, given_x);
  if (given_x.dim() < 1 || given_x.size(-1) != m.inputs)
    fail_argument(op, "x has the wrong shape", words(given_x),
                  "[..., " + std::to_string(m.inputs) + "]");
  element_of(op, "x", given_x);
  // Even a no-op call of to() takes as long as computing a small matrix product.
  const Tensor x =
      (given_x.scalar_type() == at::kFloat ? given_x : given_x.to(at::kFloat)).contiguous();
  if (bias && bias->defined()) {
    check_dense_on(op, "the bias", *bias, given_x);
    if (bias->dim() != 1 || bias->size(0) != m.outputs)
      fail_argument(op, "the bias has the wrong shape", words(*bias),
                    "[" + std::to_string(m.outputs) + "]");
  }
  return {m, x, product_like(x, weight), m.inputs ? x.numel() / m.inputs : 0};
}

Tensor linear_result(const LinearArguments& arguments, const Tensor& x, const Arguments& bias) {
  if (arguments.matrix.inputs == 0) arguments.out.zero_();  // an empty sum
  if (bias && bias->defined()) arguments.out.add_(*bias);
  return x.scalar_type() == at::kFloat ? arguments.out : arguments.out.to(x.scalar_type());
}

}  // namespace anyaccel::ops
