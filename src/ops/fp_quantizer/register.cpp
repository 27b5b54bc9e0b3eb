// Registers torch.ops.anyaccel.fp_quantizer_*: schemas, kernels for tensors in host memory, and
// meta kernels.
#include "kernels/common/large_pages.h"
#include "ops/fp_quantizer/arguments.h"
#include "ops/shared/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

/// Number of elements per task, large enough that waking a thread is worthwhile.
constexpr std::int64_t task_elements = 32768;
/// Minimum size in bytes of results that are written with non-temporal stores, because they exceed
/// the caches.
constexpr std::int64_t beyond_caches = 64 << 20;

/// Calls function(begin, end) for ranges that cover all groups, on torch's threads.
template <typename Function>
void in_groups(std::int64_t groups, std::int64_t group, const Function& function) {
  const std::int64_t step = std::max<std::int64_t>(1, task_elements / group);
  parallel_tasks((groups + step - 1) / step, task_threads(), [&](std::int64_t task, std::int64_t) {
    function(task * step, std::min(groups, (task + 1) * step));
  });
}

void wish_large_pages(const Tensor& tensor) {
  ops::wish_large_pages(tensor.mutable_data_ptr(), static_cast<std::int64_t>(tensor.nbytes()));
}

void quantize(const Tensor& out, const Tensor& val, std::int64_t group, std::int64_t bits,
              std::int64_t mantissa, bool stochastic, std::int64_t seed) {
  const auto arguments = to_floats_arguments("fp_quantizer_quantize", out, val, group, bits,
                                             mantissa, stochastic, seed);
  wish_large_pages(arguments.out.dense);
  const Isa isa = best_isa();
  in_groups(arguments.groups, group, [&](std::int64_t begin, std::int64_t end) {
    to_floats(isa, arguments.job, begin, end);
  });
  arguments.out.finish();
}

void dequantize(const Tensor& val, const Tensor& val_q, std::int64_t group, std::int64_t mantissa,
                std::int64_t exponent) {
  auto arguments =
      from_floats_arguments("fp_quantizer_dequantize", val, val_q, group, mantissa, exponent);
  wish_large_pages(arguments.out.dense);
  arguments.job.past_caches =
      static_cast<std::int64_t>(arguments.out.dense.nbytes()) >= beyond_caches;
  const Isa isa = best_isa();
  in_groups(arguments.groups, group, [&](std::int64_t begin, std::int64_t end) {
    from_floats(isa, arguments.job, begin, begin, end - begin);
  });
  arguments.out.finish();
}

std::int64_t index_at(const Tensor& indexes, std::int64_t i) {
  return indexes.scalar_type() == at::kInt ? indexes.const_data_ptr<std::int32_t>()[i]
                                           : indexes.const_data_ptr<std::int64_t>()[i];
}

void select(const Tensor& val, const Tensor& val_q, const Tensor& indexes, std::int64_t group,
            std::int64_t mantissa, std::int64_t exponent) {
  constexpr const char* op = "fp_quantizer_selective_dequantize";
  const auto arguments = select_arguments(op, val, val_q, indexes, group, mantissa, exponent);
  const std::int64_t rows = arguments.rows_of_index, choices = rows == 0 ? 0 : arguments.all / rows;
  for (std::int64_t i = 0; rows > 0 && i < arguments.indexes.numel(); ++i)
    if (const std::int64_t index = index_at(arguments.indexes, i); index < 0 || index >= choices)
      fail_argument(op, "an index is out of range", std::to_string(index),
                    "0 or more, and less than " + std::to_string(choices));
  const Isa isa = best_isa();
  in_groups(arguments.rows.groups, group, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at)
      from_floats(isa, arguments.rows.job,
                  index_at(arguments.indexes, at / rows) * rows + at % rows, at, 1);
  });
  arguments.rows.out.finish();
}

// The ops write to their arguments and do not create tensors, so the meta kernels do nothing.
void quantize_meta(const Tensor&, const Tensor&, std::int64_t, std::int64_t, std::int64_t, bool,
                   std::int64_t) {}
void dequantize_meta(const Tensor&, const Tensor&, std::int64_t, std::int64_t, std::int64_t) {}
void select_meta(const Tensor&, const Tensor&, const Tensor&, std::int64_t, std::int64_t,
                 std::int64_t) {}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "fp_quantizer_quantize(Tensor(a!) out, Tensor val, int group_size, int q_bits, int "
      "q_mantisa_bits, "
      "bool stochastic=False, int seed=0) -> ()");
  m.def(
      "fp_quantizer_dequantize(Tensor(a!) val, Tensor val_q, int group_size, int q_mantisa_bits, "
      "int q_exponent_bits) "
      "-> ()");
  m.def(
      "fp_quantizer_selective_dequantize(Tensor(a!) val, Tensor val_q, Tensor indexes, int "
      "group_size, "
      "int q_mantisa_bits, int q_exponent_bits) -> ()");
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("fp_quantizer_quantize", quantize);
  m.impl("fp_quantizer_dequantize", dequantize);
  m.impl("fp_quantizer_selective_dequantize", select);
}
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("fp_quantizer_quantize", quantize_meta);
  m.impl("fp_quantizer_dequantize", dequantize_meta);
  m.impl("fp_quantizer_selective_dequantize", select_meta);
}

}  // namespace
}  // namespace anyaccel::ops
