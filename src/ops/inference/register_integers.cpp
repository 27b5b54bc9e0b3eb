// Registers torch.ops.anyaccel.inference_quantize, inference_dequantize and inference_linear: schemas, checks, threads, meta kernels.
#include <tuple>

#include "ops/inference/given.h"
#include "ops/support/empty.h"
#include "ops/support/inference/integers.h"
#include "ops/support/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

constexpr std::int64_t task_values = 256 * 1024;
constexpr std::int64_t task_bytes = 64 * 1024;
constexpr std::int64_t rows_at_once = 16;

using Given = std::optional<Tensor>;

/// Calls function(begin, end) for pieces of [0, count) that begin at multiples of `step`.
template <typename Function>
void in_pieces(std::int64_t count, std::int64_t step, const Function& function) {
  parallel_tasks((count + step - 1) / step, task_threads(),
                 [&](std::int64_t task, std::int64_t) { function(task * step, std::min(count, (task + 1) * step)); });
}

void check_weight(const char* op, const Tensor& weight, std::int64_t bits, std::int64_t group) {
  if (weight.dim() != 2 || !weight.is_contiguous())
    refuse(op, "weight does not fit", words(weight), "a contiguous matrix [outputs, inputs]");
  if (bits != 4 && bits != 8) refuse(op, "bits cannot be had", std::to_string(bits), "4 or 8");
  if (group < 32 || group % 32 || weight.sym_size(1).guard_int(__FILE__, __LINE__) % group)
    refuse(op, "the group does not fit", std::to_string(group), "a multiple of 32 that divides the inputs");
}

std::tuple<Tensor, Tensor> quantized_like(const Tensor& weight, std::int64_t bits, std::int64_t group) {
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const auto options = weight.options();
  return {empty({outputs, bits == 8 ? inputs : inputs / 2}, options.dtype(bits == 8 ? at::kChar : at::kByte)),
          empty({outputs, inputs / group}, options.dtype(at::kFloat))};
}

std::tuple<Tensor, Tensor> quantize(const Tensor& weight, std::int64_t bits, std::int64_t group) {
  constexpr const char* op = "inference_quantize";
  check_weight(op, weight, bits, group);
  const Element type = element_of(op, "weight", weight);
  auto out = quantized_like(weight, bits, group);
  const std::int64_t inputs = weight.size(1), out_row = std::get<0>(out).size(1);
  const auto* from = static_cast<const char*>(weight.const_data_ptr());
  auto* to = static_cast<char*>(std::get<0>(out).mutable_data_ptr());
  auto* scales = std::get<1>(out).mutable_data_ptr<float>();
  const Isa isa = best_isa();
  const std::int64_t threads = task_threads();
  const Tensor scratch = empty({threads, inputs}, at::TensorOptions(at::kFloat));
  auto* const own = scratch.mutable_data_ptr<float>();
  parallel_tasks(weight.size(0), threads, [&](std::int64_t row, std::int64_t thread) {
    quantize_row(isa, static_cast<int>(bits), group, type, from + row * inputs * size_of(type), inputs,
                 to + row * out_row, scales + row * (inputs / group), own + thread * inputs);
  });
  return out;
}

std::tuple<Tensor, Tensor> quantize_meta(const Tensor& weight, std::int64_t bits, std::int64_t group) {
  check_weight("inference_quantize", weight, bits, group);
  return quantized_like(weight, bits, group);
}

Tensor dequantized_like(const Tensor& weight, std::int64_t count, at::ScalarType dtype) {
  const std::int64_t inputs = weight.size(1) * (weight.scalar_type() == at::kByte ? 2 : 1);
  return empty({count, inputs}, weight.options().dtype(dtype));
}

Tensor dequantize(const Tensor& weight, const Tensor& scales, const Given& zeros, std::int64_t begin,
                  std::int64_t count, at::ScalarType dtype) {
  constexpr const char* op = "inference_dequantize";
  const Matrix m = make_matrix(op, "weight", weight, scales, zeros);
  if (m.group == 0) refuse(op, "weight is no integer", words(weight), "int8, or uint8 with two values each");
  if (begin < 0 || count < 0 || begin > m.outputs - count)
    refuse(op, "there are no such rows", std::to_string(count) + " from " + std::to_string(begin),
           "rows of " + std::to_string(m.outputs));
  const Tensor out = dequantized_like(weight, count, dtype);
  const Element type = element_of(op, "the result", out);
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const Isa isa = best_isa();
  in_pieces(count, std::max<std::int64_t>(1, task_values / std::max<std::int64_t>(1, m.inputs)),
            [&](std::int64_t first, std::int64_t end) {
              widen_rows(isa, m, begin + first, begin + end, type, to + first * m.inputs * size_of(type));
            });
  return out;
}

Tensor dequantize_meta(const Tensor& weight, const Tensor&, const Given&, std::int64_t, std::int64_t count,
                       at::ScalarType dtype) {
  return dequantized_like(weight, count, dtype);
}

Tensor product_like(const Tensor& x, const Tensor& weight) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return empty(sizes, x.options());
}

Tensor linear(const Tensor& given_x, const Tensor& weight, const Given& scales, const Given& zeros, const Given& bias) {
  constexpr const char* op = "inference_linear";
  const Matrix m = make_matrix(op, "weight", weight, scales, zeros);
  if (given_x.dim() < 1 || given_x.size(-1) != m.inputs)
    refuse(op, "x does not fit", words(given_x), "[..., " + std::to_string(m.inputs) + "]");
  element_of(op, "x", given_x);
  const Tensor x = given_x.to(at::kFloat).contiguous();
  check_on_host(op, "x", x);
  if (bias && bias->defined() && (bias->dim() != 1 || bias->size(0) != m.outputs))
    refuse(op, "the bias does not fit", words(*bias), "[" + std::to_string(m.outputs) + "]");
  const Tensor out = product_like(x, weight);
  const std::int64_t rows = m.inputs ? x.numel() / m.inputs : 0;
  const std::int64_t row_bytes = prepared_bytes(m.format, m.inputs);
  const Tensor scratch = empty({std::min(rows, rows_at_once) * row_bytes + 64}, at::TensorOptions(at::kByte));
  auto address = reinterpret_cast<std::uintptr_t>(scratch.mutable_data_ptr());
  auto* const prepared = reinterpret_cast<void*>((address + 63) / 64 * 64);
  const auto* from = x.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<float>();
  const Isa isa = best_isa();
  const std::int64_t row_of_weight = weight.size(1) * static_cast<std::int64_t>(weight.element_size());
  const std::int64_t by_threads = m.outputs / (4 * task_threads());
  const std::int64_t step =
      std::max<std::int64_t>(16, std::min(task_bytes / std::max<std::int64_t>(1, row_of_weight), by_threads) / 16 * 16);
  for (std::int64_t row = 0; row < rows; row += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, rows - row);
    prepare_rows(isa, m, from + row * m.inputs, count, prepared);
    in_pieces(m.outputs, step, [&](std::int64_t begin, std::int64_t end) {
      multiply_rows(isa, m, prepared, count, begin, end, to + row * m.outputs + begin, m.outputs);
    });
  }
  if (bias && bias->defined()) out.add_(*bias);
  return out.to(given_x.scalar_type());
}

Tensor linear_meta(const Tensor& x, const Tensor& weight, const Given&, const Given&, const Given&) {
  return product_like(x, weight);
}

constexpr const char* quantize_schema = "inference_quantize(Tensor weight, int bits, int group) -> (Tensor, Tensor)";
constexpr const char* dequantize_schema =
    "inference_dequantize(Tensor weight, Tensor scales, Tensor? zeros, int begin, int count, ScalarType dtype) -> "
    "Tensor";
constexpr const char* linear_schema =
    "inference_linear(Tensor x, Tensor weight, Tensor? scales=None, Tensor? zeros=None, Tensor? bias=None) -> Tensor";

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(quantize_schema);
  m.def(dequantize_schema);
  m.def(linear_schema);
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("inference_quantize", quantize);
  m.impl("inference_dequantize", dequantize);
  m.impl("inference_linear", linear);
}
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("inference_quantize", quantize_meta);
  m.impl("inference_dequantize", dequantize_meta);
  m.impl("inference_linear", linear_meta);
}

}  // namespace
}  // namespace anyaccel::ops
