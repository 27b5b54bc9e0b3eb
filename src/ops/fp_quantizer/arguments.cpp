#include "ops/fp_quantizer/arguments.h"

#include "ops/shared/empty.h"

namespace anyaccel::ops {
namespace {

FloatFormat format_of(const char* op, std::int64_t bits, std::int64_t mantissa) {
  // For fp12, DeepSpeed's Python code passes 4 mantissa bits, but its kernels use 7.
  if (bits == 12 && mantissa == 4) mantissa = 7;
  for (const FloatFormat& format : float_formats)
    if (format.bits == bits && format.mantissa == mantissa) return format;
  fail_argument(op, "unsupported format",
                std::to_string(bits) + " bits with " + std::to_string(mantissa) + " mantissa bits",
                "8 bits with 3 or 2, 12 with 7, 6 with 2, or 4 with 1");
}

void check_group(const char* op, std::int64_t group, FloatFormat format) {
  if (group < 1 || group > std::numeric_limits<std::int32_t>::max() || group * format.bits % 8 != 0)
    fail_argument(op, "group_size is out of range", std::to_string(group),
                  "1 to 2147483647 elements whose " + std::to_string(format.bits) +
                      "-bit codes fill whole bytes");
}

void check_size(const char* op, const char* name, const Tensor& tensor, std::int64_t size,
                const std::string& why) {
  if (tensor.numel() != size)
    fail_argument(op, std::string(name) + ": wrong size", words(tensor),
                  std::to_string(size) + why);
}

void check_bytes(const char* op, const char* name, const Tensor& tensor) {
  if (tensor.scalar_type() != at::kByte)
    fail_argument(op, std::string(name) + " have the wrong dtype", words(tensor), "uint8");
}

/// Returns the number of groups in a tensor of values.
std::int64_t groups_of(const char* op, const Tensor& val, std::int64_t group) {
  if (val.numel() % group != 0)
    fail_argument(op, "the values do not fill whole groups", words(val),
                  "a multiple of " + std::to_string(group) + " elements");
  return val.numel() / group;
}

Changed changed(const Tensor& arguments) {
  if (!arguments.is_inference()) arguments.unsafeGetTensorImpl()->bump_version();
  return {arguments, arguments.is_contiguous()
                         ? arguments
                         : empty(arguments.sizes(), arguments.options().requires_grad(false))};
}

FromFloatsArguments rows_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                   std::int64_t group, std::int64_t mantissa,
                                   std::int64_t exponent) {
  check_dense_on(op, "the result", val, val);
  check_dense_on(op, "the codes", val_q, val);
  const Element element = element_of(op, "the result", val);
  check_bytes(op, "the codes", val_q);
  if (mantissa < 0 || mantissa > 23 || exponent < 0 || exponent > 23)
    fail_argument(op, "unsupported format",
                  std::to_string(mantissa) + " mantissa bits and " + std::to_string(exponent) +
                      " exponent bits",
                  "the mantissa and exponent bits passed to quantize()");
  const FloatFormat format = format_of(op, mantissa + exponent + 1, mantissa);
  check_group(op, group, format);
  const std::int64_t groups = groups_of(op, val, group);
  return {{}, val_q.contiguous(), {nullptr, format, group, nullptr, element}, groups};
}

/// Sets the data pointers. Call it after all checks, because it bumps the version of `val`.
void take_memory(FromFloatsArguments& arguments, const Tensor& val) {
  arguments.out = changed(val);
  arguments.job.from = arguments.from.const_data_ptr<std::uint8_t>();
  arguments.job.to = arguments.out.dense.mutable_data_ptr();
}

}  // namespace

void Changed::finish() const {
  if (!dense.is_same(arguments)) arguments.copy_(dense);
}

ToFloatsArguments to_floats_arguments(const char* op, const Tensor& out, const Tensor& val,
                                      std::int64_t group, std::int64_t bits, std::int64_t mantissa,
                                      bool stochastic, std::int64_t seed) {
  check_dense_on(op, "the input", val, val);
  check_dense_on(op, "the result", out, val);
  const Element element = element_of(op, "the input", val);
  check_bytes(op, "the results", out);
  const FloatFormat format = format_of(op, bits, mantissa);
  check_group(op, group, format);
  const std::int64_t groups = groups_of(op, val, group), bytes = row_bytes(format, group);
  check_size(op, "the result", out, groups * bytes,
             " bytes: " + std::to_string(groups) + " groups, each with its codes and 4 bytes");
  ToFloatsArguments arguments{{}, val.contiguous(), {}, groups};
  arguments.out = changed(out);
  arguments.job = {.from = arguments.from.const_data_ptr(),
                   .element = element,
                   .format = format,
                   .group = group,
                   .to = arguments.out.dense.mutable_data_ptr<std::uint8_t>(),
                   .stochastic = stochastic,
                   .seed = static_cast<std::uint64_t>(seed)};
  return arguments;
}

FromFloatsArguments from_floats_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                          std::int64_t group, std::int64_t mantissa,
                                          std::int64_t exponent) {
  FromFloatsArguments out = rows_arguments(op, val, val_q, group, mantissa, exponent);
  check_size(op, "the codes", val_q, out.groups * row_bytes(out.job.format, group),
             " bytes: " + std::to_string(out.groups) + " groups, each with its codes and 4 bytes");
  take_memory(out, val);
  return out;
}

SelectArguments select_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                 const Tensor& indexes, std::int64_t group, std::int64_t mantissa,
                                 std::int64_t exponent) {
  SelectArguments out{rows_arguments(op, val, val_q, group, mantissa, exponent), {}, 0, 0};
  check_dense_on(op, "the indexes", indexes, val);
  if (indexes.dim() != 1 ||
      (indexes.scalar_type() != at::kInt && indexes.scalar_type() != at::kLong))
    fail_argument(op, "the indexes have the wrong shape or dtype", words(indexes),
                  "a 1-D int32 or int64 tensor");
  const std::int64_t count = indexes.size(0), bytes = row_bytes(out.rows.job.format, group);
  if (count == 0 ? out.rows.groups != 0 : out.rows.groups % count != 0)
    fail_argument(op, "the result does not have the same number of whole groups for each index",
                  words(val),
                  "a multiple of " + std::to_string(count) + " groups of " + std::to_string(group));
  if (val_q.numel() % bytes != 0)
    fail_argument(op, "the codes do not fill whole groups", words(val_q),
                  "a multiple of " + std::to_string(bytes) + " bytes");
  out.rows_of_index = count == 0 ? 0 : out.rows.groups / count;
  out.all = val_q.numel() / bytes;
  out.indexes = indexes.contiguous();
  take_memory(out.rows, val);
  return out;
}

}  // namespace anyaccel::ops
