// Registers torch.ops.anyaccel.fp_quantizer_* for tensors on CUDA devices. Untested on hardware.
#include "kernels/quantization/cuda_minifloat.h"
#include "ops/fp_quantizer/arguments.h"
#include "ops/shared/device_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void quantize(const Tensor& out, const Tensor& val, std::int64_t group, std::int64_t bits,
              std::int64_t mantissa, bool stochastic, std::int64_t seed) {
  constexpr const char* op = "fp_quantizer_quantize";
  const c10::DeviceGuard guard(val.device());
  const auto arguments = to_floats_arguments(op, out, val, group, bits, mantissa, stochastic, seed);
  check_launch(op, cuda_to_floats(arguments.job, arguments.groups, current_stream(val.device())));
  arguments.out.finish();
}

void dequantize(const Tensor& val, const Tensor& val_q, std::int64_t group, std::int64_t mantissa,
                std::int64_t exponent) {
  constexpr const char* op = "fp_quantizer_dequantize";
  const c10::DeviceGuard guard(val.device());
  const auto arguments = from_floats_arguments(op, val, val_q, group, mantissa, exponent);
  check_launch(op, cuda_from_floats(arguments.job, arguments.groups, current_stream(val.device())));
  arguments.out.finish();
}

void select(const Tensor& val, const Tensor& val_q, const Tensor& indexes, std::int64_t group,
            std::int64_t mantissa, std::int64_t exponent) {
  constexpr const char* op = "fp_quantizer_selective_dequantize";
  const c10::DeviceGuard guard(val.device());
  const auto arguments = select_arguments(op, val, val_q, indexes, group, mantissa, exponent);
  const SelectedRows selected{.indexes = arguments.indexes.const_data_ptr(),
                              .wide = arguments.indexes.scalar_type() == at::kLong,
                              .count = arguments.indexes.numel(),
                              .rows = arguments.rows_of_index,
                              .all_rows = arguments.all};
  check_launch(op, cuda_select_floats(arguments.rows.job, selected, current_stream(val.device())));
  arguments.rows.out.finish();
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("fp_quantizer_quantize", quantize);
  m.impl("fp_quantizer_dequantize", dequantize);
  m.impl("fp_quantizer_selective_dequantize", select);
}

}  // namespace
}  // namespace anyaccel::ops
