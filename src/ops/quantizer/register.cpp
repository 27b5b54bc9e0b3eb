// Registers torch.ops.anyaccel.quantizer_*: schemas, kernels for tensors in host memory, and meta
// kernels.
#include <tuple>

#include "kernels/common/large_pages.h"
#include "ops/quantizer/arguments.h"
#include "ops/shared/empty.h"
#include "ops/shared/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

/// Number of elements per task. It is large enough that waking a thread is worthwhile, and small
/// enough that the second pass over the elements reads from the cache.
constexpr std::int64_t task_elements = 32768;
/// Minimum size in bytes of results that are written with non-temporal stores, because they exceed
/// the caches.
constexpr std::int64_t beyond_caches = 64 << 20;

/// Calls function(begin, end) for ranges that cover [0, count), on torch's threads.
template <typename Function>
void in_pieces(std::int64_t count, std::int64_t step, const Function& function) {
  parallel_tasks((count + step - 1) / step, task_threads(), [&](std::int64_t task, std::int64_t) {
    function(task * step, std::min(count, (task + 1) * step));
  });
}

std::int64_t groups_of_task(std::int64_t group) {
  return std::max<std::int64_t>(1, task_elements / std::max<std::int64_t>(1, group));
}

/// Quantizes large groups one after the other, each on all threads.
void quantize_large_groups(Isa isa, const QuantizeJob& job, std::int64_t groups) {
  const std::int64_t parts = (job.group + task_elements - 1) / task_elements;
  std::vector<GroupRange> ranges(static_cast<std::size_t>(parts));
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t first = group * job.group;
    in_pieces(job.group, task_elements, [&](std::int64_t begin, std::int64_t end) {
      ranges[static_cast<std::size_t>(begin / task_elements)] =
          range_of_part(isa, job, first + begin, first + end);
    });
    GroupRange range = empty_range(!job.asymmetric);
    for (const GroupRange& part : ranges) range = joined(range, part);
    const GroupScale scale = group_scale(range, job.bits, job.asymmetric, false);
    in_pieces(job.group, task_elements, [&](std::int64_t begin, std::int64_t end) {
      quantize_part(isa, job, scale, group, first + begin, first + end);
    });
  }
}

Pair quantize_on_host(const QuantizeArguments& arguments) {
  wish_large_pages(arguments.job.to, static_cast<std::int64_t>(arguments.codes.nbytes()));
  const Isa isa = best_isa();
  const std::int64_t threads = task_threads();
  if (threads > 1 && arguments.groups < 4 * threads && arguments.job.group > 4 * task_elements)
    quantize_large_groups(isa, arguments.job, arguments.groups);
  else
    in_pieces(arguments.groups, groups_of_task(arguments.job.group),
              [&](std::int64_t begin, std::int64_t end) {
                quantize_groups(isa, arguments.job, begin, end);
              });
  return {arguments.codes, arguments.params};
}

Pair quantize(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric) {
  return quantize_on_host(
      quantize_arguments("quantizer_quantize", input, groups, bits, asymmetric));
}

Pair swizzle(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric,
             std::int64_t slices, std::int64_t nodes, std::int64_t devices) {
  return quantize_on_host(swizzle_arguments("quantizer_swizzle", input, groups, bits, asymmetric,
                                            {slices, nodes, devices}));
}

Tensor dequantize(const Tensor& data, const Tensor& params, std::int64_t groups, std::int64_t bits,
                  bool asymmetric, at::ScalarType dtype) {
  auto arguments =
      dequantize_arguments("quantizer_dequantize", data, params, groups, bits, asymmetric, dtype);
  const auto bytes = static_cast<std::int64_t>(arguments.out.nbytes());
  wish_large_pages(arguments.job.to, bytes);
  arguments.job.past_caches = bytes >= beyond_caches;
  const Isa isa = best_isa();
  in_pieces(arguments.out.numel(), task_elements, [&](std::int64_t begin, std::int64_t end) {
    dequantize_part(isa, arguments.job, begin, end);
  });
  return arguments.out;
}

Pair reduce(const Tensor& data, const Tensor& params, std::int64_t in_groups,
            std::int64_t out_groups, std::int64_t bits, bool asymmetric, std::int64_t devices) {
  const auto arguments = reduce_arguments("quantizer_reduce", data, params, in_groups, out_groups,
                                          bits, asymmetric, devices);
  const Isa isa = best_isa();
  const std::int64_t threads = task_threads(), step = groups_of_task(arguments.job.group);
  std::vector<float> scratch(static_cast<std::size_t>(threads * reduce_scratch));
  parallel_tasks((arguments.groups + step - 1) / step, threads,
                 [&](std::int64_t task, std::int64_t thread) {
                   reduce_groups(isa, arguments.job, task * step,
                                 std::min(arguments.groups, (task + 1) * step),
                                 scratch.data() + thread * reduce_scratch);
                 });
  return {arguments.codes, arguments.params};
}

Tensor dequantize_half(const Tensor& data, const Tensor& scale, const Tensor& least,
                       std::int64_t groups, std::int64_t group, std::int64_t bits) {
  const auto arguments = dequantize_half_arguments("quantizer_dequantize_half", data, scale, least,
                                                   groups, group, bits);
  const Isa isa = best_isa();
  in_pieces(arguments.out.numel(), task_elements, [&](std::int64_t begin, std::int64_t end) {
    dequantize_half_part(isa, arguments.job, begin, end);
  });
  return arguments.out;
}

// Meta kernels. The sizes may be symbolic.

Tensor empty_like_sizes(c10::SymIntArrayRef sizes, const Tensor& like, at::ScalarType dtype) {
  return at::_ops::empty_memory_format::call(sizes, dtype, at::kStrided, like.device(), false,
                                             std::nullopt);
}

Pair shapes_of_codes(const Tensor& input, c10::SymIntArrayRef sizes, std::int64_t groups,
                     bool asymmetric) {
  return {empty_like_sizes(sizes, input, at::kChar),
          empty_like_sizes({groups, asymmetric ? 2 : 1}, input, at::kFloat)};
}

Pair quantize_meta(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric) {
  check_bits("quantizer_quantize", bits);
  auto sizes = input.sym_sizes().vec();
  if (bits == 4 && !sizes.empty()) sizes.back() = sizes.back() / 2;
  return shapes_of_codes(input, sizes, groups, asymmetric);
}

Pair swizzle_meta(const Tensor& input, std::int64_t groups, std::int64_t bits, bool asymmetric,
                  std::int64_t, std::int64_t, std::int64_t) {
  check_bits("quantizer_swizzle", bits);
  return shapes_of_codes(input, {input.sym_numel() * bits / 8}, groups, asymmetric);
}

Tensor dequantize_meta(const Tensor& data, const Tensor&, std::int64_t, std::int64_t bits, bool,
                       at::ScalarType dtype) {
  check_bits("quantizer_dequantize", bits);
  auto sizes = data.sym_sizes().vec();
  if (bits == 4 && !sizes.empty()) sizes.back() = sizes.back() * 2;
  return empty_like_sizes(sizes, data, dtype);
}

Pair reduce_meta(const Tensor& data, const Tensor&, std::int64_t, std::int64_t out_groups,
                 std::int64_t bits, bool asymmetric, std::int64_t devices) {
  check_bits("quantizer_reduce", bits);
  auto sizes = data.sym_sizes().vec();
  if (sizes.empty() || devices < 1)
    fail_argument("quantizer_reduce", "the data is a scalar, or devices_per_node is out of range",
                  std::to_string(devices), "1 or more");
  sizes.back() = sizes.back() / devices;
  return shapes_of_codes(data, sizes, out_groups, asymmetric);
}

Tensor dequantize_half_meta(const Tensor& data, const Tensor&, const Tensor&, std::int64_t groups,
                            std::int64_t group, std::int64_t) {
  return empty_like_sizes({groups, group}, data, at::kHalf);
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "quantizer_quantize(Tensor input, int groups, int num_bits, bool asymmetric=False) -> "
      "(Tensor, Tensor)");
  m.def(
      "quantizer_dequantize(Tensor data, Tensor params, int groups, int num_bits, bool "
      "asymmetric=False, "
      "ScalarType dtype=half) -> Tensor");
  m.def(
      "quantizer_swizzle(Tensor input, int groups, int num_bits, bool asymmetric, int "
      "pipeline_size, int nodes, "
      "int devices_per_node) -> (Tensor, Tensor)");
  m.def(
      "quantizer_reduce(Tensor data, Tensor params, int in_groups, int out_groups, int num_bits, "
      "bool asymmetric, "
      "int devices_per_node) -> (Tensor, Tensor)");
  m.def(
      "quantizer_dequantize_half(Tensor data, Tensor scale, Tensor min_value, int num_group, int "
      "group_size, "
      "int num_bits) -> Tensor");
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("quantizer_quantize", quantize);
  m.impl("quantizer_dequantize", dequantize);
  m.impl("quantizer_swizzle", swizzle);
  m.impl("quantizer_reduce", reduce);
  m.impl("quantizer_dequantize_half", dequantize_half);
}
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("quantizer_quantize", quantize_meta);
  m.impl("quantizer_dequantize", dequantize_meta);
  m.impl("quantizer_swizzle", swizzle_meta);
  m.impl("quantizer_reduce", reduce_meta);
  m.impl("quantizer_dequantize_half", dequantize_half_meta);
}

}  // namespace
}  // namespace anyaccel::ops
