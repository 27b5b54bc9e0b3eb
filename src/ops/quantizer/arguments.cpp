#include "ops/quantizer/arguments.h"

#include "ops/shared/empty.h"

namespace anyaccel::ops {
namespace {

/// Returns the number of elements per group. Groups must fill whole bytes.
std::int64_t check_groups(const char* op, const char* name, std::int64_t size, std::int64_t groups,
                          std::int64_t bits) {
  if (groups < 0 || (groups == 0 ? size != 0 : size % groups != 0))
    fail_argument(op, std::string("the number of elements is not divisible by ") + name,
                  std::to_string(groups), "a divisor of " + std::to_string(size));
  const std::int64_t group = groups == 0 ? 0 : size / groups;
  if (bits == 4 && group % 2 != 0)
    fail_argument(op, "a group of 4-bit codes does not fill whole bytes",
                  std::to_string(group) + " elements", "an even number",
                  "choose " + std::string(name) + " so that the group size is even");
  return group;
}

Tensor check_codes(const char* op, const Tensor& data) {
  check_dense_on(op, "the data", data, data);
  if (data.scalar_type() != at::kChar && data.scalar_type() != at::kByte)
    fail_argument(op, "the data has the wrong dtype", words(data), "int8 or uint8");
  return data.contiguous();
}

Tensor check_params(const char* op, const char* name, const Tensor& params, const Tensor& data,
                    std::int64_t count, at::ScalarType dtype) {
  check_dense_on(op, name, params, data);
  if (params.scalar_type() != dtype || params.numel() != count)
    fail_argument(op, std::string(name) + " have the wrong size or dtype", words(params),
                  std::to_string(count) + " elements of " + c10::toString(dtype));
  return params.contiguous();
}

const std::int8_t* codes_of(const Tensor& data) {
  return static_cast<const std::int8_t*>(data.const_data_ptr());
}

std::int64_t width_of(bool asymmetric) { return asymmetric ? 2 : 1; }

QuantizeArguments quantize_into(const char* op, const Tensor& input, std::int64_t groups,
                                std::int64_t bits, bool asymmetric, at::IntArrayRef sizes) {
  const auto options = input.options().requires_grad(false);
  QuantizeArguments out{empty(sizes, options.dtype(at::kChar)),
                        empty({groups, width_of(asymmetric)}, options.dtype(at::kFloat)),
                        input.contiguous(),
                        {},
                        groups};
  out.job = {.from = out.from.const_data_ptr(),
             .element = element_of(op, "the input", input),
             .bits = static_cast<int>(bits),
             .asymmetric = asymmetric,
             .group = groups == 0 ? 0 : input.numel() / groups,
             .to = static_cast<std::int8_t*>(out.codes.mutable_data_ptr()),
             .params = out.params.mutable_data_ptr<float>(),
             .order = {}};
  return out;
}

void check_input(const char* op, const Tensor& input, std::int64_t groups, std::int64_t bits) {
  check_dense_on(op, "the input", input, input);
  check_bits(op, bits);
  element_of(op, "the input", input);
  check_groups(op, "groups", input.numel(), groups, bits);
}

}  // namespace

void check_bits(const char* op, std::int64_t bits) {
  if (bits != 4 && bits != 8)
    fail_argument(op, "unsupported num_bits", std::to_string(bits), "4 or 8");
}

QuantizeArguments quantize_arguments(const char* op, const Tensor& input, std::int64_t groups,
                                     std::int64_t bits, bool asymmetric) {
  check_input(op, input, groups, bits);
  auto sizes = input.sizes().vec();
  if (bits == 4) {
    if (sizes.empty() || sizes.back() % 2 != 0)
      fail_argument(op, "the last dimension of 4-bit codes does not fill whole bytes", words(input),
                    "an even last dimension");
    sizes.back() /= 2;
  }
  return quantize_into(op, input, groups, bits, asymmetric, sizes);
}

QuantizeArguments swizzle_arguments(const char* op, const Tensor& input, std::int64_t groups,
                                    std::int64_t bits, bool asymmetric,
                                    const Partitions& partitions) {
  check_input(op, input, groups, bits);
  std::int64_t contiguous = groups;
  for (const auto& [name, count] : {std::pair("nodes", partitions.nodes),
                                    {"devices_per_node", partitions.devices},
                                    {"pipeline_size", partitions.slices}}) {
    if (count < 1 || contiguous % count != 0)
      fail_argument(op, std::string("the groups cannot be divided by ") + name,
                    std::to_string(count), "a divisor of " + std::to_string(contiguous),
                    "choose groups that divide evenly among nodes, devices and slices");
    contiguous /= count;
  }
  QuantizeArguments out =
      quantize_into(op, input, groups, bits, asymmetric, {input.numel() * bits / 8});
  out.job.order = {.contiguous = contiguous,
                   .slices = partitions.slices,
                   .nodes = partitions.nodes,
                   .devices = partitions.devices,
                   .swizzled = true};
  return out;
}

DequantizeArguments dequantize_arguments(const char* op, const Tensor& data, const Tensor& params,
                                         std::int64_t groups, std::int64_t bits, bool asymmetric,
                                         at::ScalarType dtype) {
  check_bits(op, bits);
  DequantizeArguments out{{}, check_codes(op, data), {}, {}};
  auto sizes = data.sizes().vec();
  if (bits == 4) {
    if (sizes.empty())
      fail_argument(op, "the 4-bit codes are a scalar", words(data), "at least one dimension");
    sizes.back() *= 2;
  }
  const std::int64_t size = data.numel() * 8 / bits;
  const std::int64_t group = check_groups(op, "groups", size, groups, bits);
  out.params =
      check_params(op, "the parameters", params, data, groups * width_of(asymmetric), at::kFloat);
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16)
    fail_argument(op, "unsupported dtype", c10::toString(dtype), "float32, float16 or bfloat16");
  out.out = empty(sizes, data.options().dtype(dtype));
  out.job = {.from = codes_of(out.from),
             .bits = static_cast<int>(bits),
             .asymmetric = asymmetric,
             .params = out.params.const_data_ptr<float>(),
             .group = group,
             .to = out.out.mutable_data_ptr(),
             .element = element_of(op, "the result", out.out),
             .past_caches = false};
  return out;
}

ReduceArguments reduce_arguments(const char* op, const Tensor& data, const Tensor& params,
                                 std::int64_t in_groups, std::int64_t out_groups, std::int64_t bits,
                                 bool asymmetric, std::int64_t devices) {
  check_bits(op, bits);
  ReduceArguments out{{}, {}, check_codes(op, data), {}, {}, out_groups};
  auto sizes = data.sizes().vec();
  if (devices < 1 || sizes.empty() || sizes.back() % devices != 0 || in_groups % devices != 0)
    fail_argument(op, "the data or the groups cannot be divided evenly among the devices",
                  words(data) + " in " + std::to_string(in_groups) + " groups",
                  "a last dimension and groups that are multiples of devices_per_node, " +
                      std::to_string(devices));
  sizes.back() /= devices;
  const std::int64_t size = data.numel() / devices * 8 / bits;
  const std::int64_t in_group =
      check_groups(op, "the in_groups of one device", size, in_groups / devices, bits);
  const std::int64_t group = check_groups(op, "out_groups", size, out_groups, bits);
  out.from_params =
      check_params(op, "the scales", params, data, in_groups * width_of(asymmetric), at::kFloat);
  out.codes = empty(sizes, data.options().dtype(at::kChar));
  out.params = empty({out_groups, width_of(asymmetric)}, data.options().dtype(at::kFloat));
  out.job = {.from = codes_of(out.from),
             .from_params = out.from_params.const_data_ptr<float>(),
             .tensors = devices,
             .size = size,
             .in_group = in_group,
             .bits = static_cast<int>(bits),
             .asymmetric = asymmetric,
             .group = group,
             .to = static_cast<std::int8_t*>(out.codes.mutable_data_ptr()),
             .params = out.params.mutable_data_ptr<float>()};
  return out;
}

DequantizeHalfArguments dequantize_half_arguments(const char* op, const Tensor& data,
                                                  const Tensor& scale, const Tensor& least,
                                                  std::int64_t groups, std::int64_t group,
                                                  std::int64_t bits) {
  check_bits(op, bits);
  DequantizeHalfArguments out{{}, check_codes(op, data), {}, {}, {}};
  const std::int64_t size = data.numel() * 8 / bits;
  if (check_groups(op, "num_group", size, groups, bits) != group && groups != 0)
    fail_argument(op, "the data does not match num_group and group_size", words(data),
                  std::to_string(groups) + " groups of " + std::to_string(group) + " elements");
  if (group < 0)
    fail_argument(op, "group_size is out of range", std::to_string(group), "0 or more");
  out.scales = check_params(op, "the scales", scale, data, groups, at::kHalf);
  out.least = check_params(op, "the minimum values", least, data, groups, at::kHalf);
  out.out = empty({groups, group}, data.options().dtype(at::kHalf));
  out.job = {.from = static_cast<const std::uint8_t*>(out.from.const_data_ptr()),
             .bits = static_cast<int>(bits),
             .scales = static_cast<const Fp16*>(out.scales.const_data_ptr()),
             .least = static_cast<const Fp16*>(out.least.const_data_ptr()),
             .group = group,
             .to = static_cast<Fp16*>(out.out.mutable_data_ptr())};
  return out;
}

}  // namespace anyaccel::ops
