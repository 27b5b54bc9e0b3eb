// Registers torch.ops.anyaccel.inference_* for tensors on CUDA devices. Untested on hardware.
#include "kernels/decoder/cuda/pass.h"
#include "ops/decoder/integer_arguments.h"
#include "ops/shared/device_tensors.h"
#include "ops/shared/empty.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void decode(const Tensor& x, const OptionalTensors& weights, at::TensorList keys,
            at::TensorList values, at::TensorList angles, at::IntArrayRef past,
            at::IntArrayRef rows, at::IntArrayRef config, const std::optional<Tensor>& logits,
            const std::optional<Tensor>& change, const std::string& sum_group) {
  constexpr const char* op = "inference_decode";
  if (!x.is_cuda())
    fail_argument(op, "x is on a different device than the weights", words(x),
                  "a tensor on their device");
  const c10::DeviceGuard guard(x.device());
  const auto [decoder, half] = make_decoder(
      {x, weights, keys, values, angles, past, rows, config, logits, change, sum_group});
  if (decoder.sum.add_up)
    fail_argument(op, "sum_group requires host memory", "'" + sum_group + "'", "an empty name",
                  "use part to compute half a layer per call");
  // The tensor is freed before the kernels have run. This is safe, because torch's allocator reuses
  // the memory only for later work on the same stream.
  const Tensor scratch =
      empty({cuda_decoder_scratch(decoder)}, x.options().dtype(at::kByte).requires_grad(false));
  float* const out =
      decoder.head.matrix.outputs ? static_cast<float*>(changed_memory(*logits)) : nullptr;
  float* const part = half != Half::whole ? static_cast<float*>(changed_memory(*change)) : nullptr;
  auto* const in = static_cast<float*>(half != Half::whole ? x.data_ptr() : changed_memory(x));
  check_launch(op, run_cuda_decoder(decoder, in, out, scratch.mutable_data_ptr(), half, part,
                                    current_stream(x.device())));
}

std::tuple<Tensor, Tensor> quantize(const Tensor& weight, std::int64_t bits, std::int64_t group) {
  constexpr const char* op = "inference_quantize";
  const c10::DeviceGuard guard(weight.device());
  auto out = quantized_like(weight, bits, group);
  check_launch(op, cuda_quantize_matrix({weight.const_data_ptr(), element_of(op, "weight", weight),
                                         static_cast<int>(bits), weight.size(0), weight.size(1),
                                         group, std::get<0>(out).mutable_data_ptr(),
                                         std::get<1>(out).mutable_data_ptr<float>()},
                                        current_stream(weight.device())));
  return out;
}

Tensor dequantize(const Tensor& weight, const Tensor& scales, const Arguments& zeros,
                  std::int64_t begin, std::int64_t count, at::ScalarType dtype) {
  constexpr const char* op = "inference_dequantize";
  const c10::DeviceGuard guard(weight.device());
  const Matrix matrix = dequantize_arguments(weight, scales, zeros, begin, count);
  const Tensor out = dequantized_like(weight, count, dtype);
  check_launch(op, cuda_widen_matrix({matrix, begin, count, element_of(op, "the result", out),
                                      out.mutable_data_ptr()},
                                     current_stream(weight.device())));
  return out;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Arguments& scales,
              const Arguments& zeros, const Arguments& bias) {
  const c10::DeviceGuard guard(x.device());
  const LinearArguments arguments = linear_arguments(x, weight, scales, zeros, bias);
  const Matrix& m = arguments.matrix;
  const auto* const from = arguments.x.const_data_ptr<float>();
  auto* const to = arguments.out.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < arguments.rows; row += cuda_rows)
    check_launch("inference_linear", cuda_products({m.format,
                                                    m.inputs,
                                                    m.group,
                                                    1,
                                                    {{m.weight, m.scales, m.zeros, {}, m.outputs}},
                                                    from + row * m.inputs,
                                                    std::min(cuda_rows, arguments.rows - row),
                                                    to + row * m.outputs,
                                                    m.outputs},
                                                   current_stream(x.device())));
  return linear_result(arguments, x, bias);
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("inference_decode", decode);
  m.impl("inference_quantize", quantize);
  m.impl("inference_dequantize", dequantize);
  m.impl("inference_linear", linear);
}

}  // namespace
}  // namespace anyaccel::ops
