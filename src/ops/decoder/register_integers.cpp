// Registers torch.ops.anyaccel.inference_quantize, inference_dequantize and inference_linear:
// schemas, argument checks, threading and meta kernels.
#include "kernels/common/team.h"
#include "kernels/decoder/integers.h"
#include "ops/decoder/integer_arguments.h"
#include "ops/shared/empty.h"
#include "ops/shared/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

constexpr std::int64_t task_values = 256 * 1024;
constexpr std::int64_t task_bytes = 64 * 1024;
constexpr std::int64_t rows_at_once = 16;

/// Calls function(begin, end) for consecutive ranges of [0, count). Each range begins at a multiple
/// of `step`.
template <typename Function>
void in_pieces(std::int64_t count, std::int64_t step, const Function& function) {
  parallel_tasks((count + step - 1) / step, task_threads(), [&](std::int64_t task, std::int64_t) {
    function(task * step, std::min(count, (task + 1) * step));
  });
}

std::tuple<Tensor, Tensor> quantize(const Tensor& weight, std::int64_t bits, std::int64_t group) {
  auto out = quantized_like(weight, bits, group);
  const Element type = element_of("inference_quantize", "weight", weight);
  const std::int64_t inputs = weight.size(1), out_row = std::get<0>(out).size(1);
  const auto* from = static_cast<const char*>(weight.const_data_ptr());
  auto* to = static_cast<char*>(std::get<0>(out).mutable_data_ptr());
  auto* scales = std::get<1>(out).mutable_data_ptr<float>();
  const Isa isa = best_isa();
  const std::int64_t threads = task_threads();
  const Tensor scratch = empty({threads, inputs}, at::TensorOptions(at::kFloat));
  auto* const own = scratch.mutable_data_ptr<float>();
  parallel_tasks(weight.size(0), threads, [&](std::int64_t row, std::int64_t thread) {
    quantize_row(isa, static_cast<int>(bits), group, type, from + row * inputs * size_of(type),
                 inputs, to + row * out_row, scales + row * (inputs / group),
                 own + thread * inputs);
  });
  return out;
}

std::tuple<Tensor, Tensor> quantize_meta(const Tensor& weight, std::int64_t bits,
                                         std::int64_t group) {
  return quantized_like(weight, bits, group);
}

Tensor dequantize(const Tensor& weight, const Tensor& scales, const Arguments& zeros,
                  std::int64_t begin, std::int64_t count, at::ScalarType dtype) {
  const Matrix m = dequantize_arguments(weight, scales, zeros, begin, count);
  const Tensor out = dequantized_like(weight, count, dtype);
  const Element type = element_of("inference_dequantize", "the result", out);
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const Isa isa = best_isa();
  in_pieces(count, std::max<std::int64_t>(1, task_values / std::max<std::int64_t>(1, m.inputs)),
            [&](std::int64_t first, std::int64_t end) {
              widen_rows(isa, m, begin + first, begin + end, type,
                         to + first * m.inputs * size_of(type));
            });
  return out;
}

Tensor dequantize_meta(const Tensor& weight, const Tensor&, const Arguments&, std::int64_t,
                       std::int64_t count, at::ScalarType dtype) {
  return dequantized_like(weight, count, dtype);
}

Tensor linear(const Tensor& given_x, const Tensor& weight, const Arguments& scales,
              const Arguments& zeros, const Arguments& bias) {
  const LinearArguments arguments = linear_arguments(given_x, weight, scales, zeros, bias);
  const Matrix& m = arguments.matrix;
  const std::int64_t rows = arguments.rows;
  const std::int64_t row_bytes = prepared_bytes(m.format, m.inputs);
  const std::int64_t row_of_weight =
      weight.size(1) * static_cast<std::int64_t>(weight.element_size());
  const std::int64_t allowed = task_threads(), by_threads = m.outputs / (4 * allowed);
  const std::int64_t step = std::max<std::int64_t>(
      16, std::min(task_bytes / std::max<std::int64_t>(1, row_of_weight), by_threads) / 16 * 16);
  const std::int64_t tasks = (m.outputs + step - 1) / step,
                     threads = std::clamp<std::int64_t>(tasks, 1, allowed);
  // With a single row, each thread prepares the row itself, because that is cheaper than a barrier.
  const bool alone = rows == 1;
  const Tensor scratch = empty({(alone ? threads : std::min(rows, rows_at_once)) * row_bytes + 64},
                               at::TensorOptions(at::kByte));
  auto address = reinterpret_cast<std::uintptr_t>(scratch.mutable_data_ptr());
  auto* const prepared = reinterpret_cast<char*>((address + 63) / 64 * 64);
  const auto* from = arguments.x.const_data_ptr<float>();
  auto* to = arguments.out.mutable_data_ptr<float>();
  const Isa isa = best_isa();
  // Use a team, in which each thread gets one contiguous range of tasks. If adjacent tasks ran on
  // different threads, data that is prefetched past the end of each task would be read twice.
  run_team(threads, [&](Team& team) {
    for (std::int64_t row = 0; row < rows; row += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, rows - row);
      char* const mine = alone ? prepared + team.thread() * row_bytes : prepared;
      if (alone)
        prepare_rows(isa, m, from, 1, mine);
      else
        team.tasks(count, [&](std::int64_t each) {
          prepare_rows(isa, m, from + (row + each) * m.inputs, 1, prepared + each * row_bytes);
        });
      const auto products = [&](std::int64_t task) {
        const std::int64_t begin = task * step, end = std::min(m.outputs, begin + step);
        multiply_rows(isa, m, mine, count, begin, end, to + row * m.outputs + begin, m.outputs);
      };
      row + count < rows ? team.tasks(tasks, products) : team.last_tasks(tasks, products);
    }
  });
  return linear_result(arguments, given_x, bias);
}

Tensor linear_meta(const Tensor& x, const Tensor& weight, const Arguments&, const Arguments&,
                   const Arguments&) {
  return product_like(x, weight);
}

constexpr const char* quantize_schema =
    "inference_quantize(Tensor weight, int bits, int group) -> (Tensor, Tensor)";
constexpr const char* dequantize_schema =
    "inference_dequantize(Tensor weight, Tensor scales, Tensor? zeros, int begin, int count, "
    "ScalarType dtype) -> "
    "Tensor";
constexpr const char* linear_schema =
    "inference_linear(Tensor x, Tensor weight, Tensor? scales=None, Tensor? zeros=None, Tensor? "
    "bias=None) -> Tensor";

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
