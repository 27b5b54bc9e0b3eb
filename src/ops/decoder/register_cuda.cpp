// Registers torch.ops.anyaccel.inference_* for tensors on CUDA devices. Not run on hardware.
#include "ops/decoder/integer_arguments.h"
#include "ops/shared/device_tensors.h"
#include "ops/shared/empty.h"
#include "kernels/decoder/cuda/pass.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void decode(const Tensor& x, const OptionalTensors& weights, at::TensorList keys, at::TensorList values,
            at::TensorList angles, at::IntArrayRef past, at::IntArrayRef rows, at::IntArrayRef sizes,
            at::IntArrayRef windows, at::ArrayRef<double> numbers, const std::optional<Tensor>& logits,
            const std::optional<Tensor>& change, std::int64_t half, const std::string& sum_group, std::int64_t sums) {
  constexpr const char* op = "inference_decode";
  if (!x.is_cuda()) refuse(op, "x is not where the weights are", words(x), "a tensor on their device");
  const c10::DeviceGuard guard(x.device());
  const Decoder decoder = make_decoder(
      {x, weights, keys, values, angles, past, rows, sizes, windows, numbers, logits, change, half, sum_group, sums});
  if (decoder.sum.add_up)
    refuse(op, "ranks' parts are added up in host memory alone", "the group '" + sum_group + "'", "none",
           "take half a layer at a time");
  // Freed when it is still to be used: torch's allocator gives it to later work of this stream only.
  const Tensor scratch = empty({cuda_decoder_scratch(decoder)}, x.options().dtype(at::kByte).requires_grad(false));
  float* const out = decoder.head.matrix.outputs ? static_cast<float*>(changed_memory(*logits)) : nullptr;
  float* const part = half ? static_cast<float*>(changed_memory(*change)) : nullptr;
  auto* const in = static_cast<float*>(half ? x.data_ptr() : changed_memory(x));
  check_launch(op, run_cuda_decoder(decoder, in, out, scratch.mutable_data_ptr(), static_cast<Half>(half), part,
                                    current_stream(x.device())));
}

std::tuple<Tensor, Tensor> quantize(const Tensor& weight, std::int64_t bits, std::int64_t group) {
  constexpr const char* op = "inference_quantize";
  const c10::DeviceGuard guard(weight.device());
  auto out = quantized_like(weight, bits, group);
  check_launch(
      op, cuda_quantize_matrix(
              {weight.const_data_ptr(), element_of(op, "weight", weight), static_cast<int>(bits), weight.size(0),
               weight.size(1), group, std::get<0>(out).mutable_data_ptr(), std::get<1>(out).mutable_data_ptr<float>()},
              current_stream(weight.device())));
  return out;
}

Tensor dequantize(const Tensor& weight, const Tensor& scales, const Given& zeros, std::int64_t begin,
                  std::int64_t count, at::ScalarType dtype) {
  constexpr const char* op = "inference_dequantize";
  const c10::DeviceGuard guard(weight.device());
  const Matrix matrix = dequantize_given(weight, scales, zeros, begin, count);
  const Tensor out = dequantized_like(weight, count, dtype);
  check_launch(op, cuda_widen_matrix({matrix, begin, count, element_of(op, "the result", out), out.mutable_data_ptr()},
                                     current_stream(weight.device())));
  return out;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Given& scales, const Given& zeros, const Given& bias) {
  const c10::DeviceGuard guard(x.device());
  const LinearGiven given = linear_given(x, weight, scales, zeros, bias);
  const Matrix& m = given.matrix;
  const auto* const from = given.x.const_data_ptr<float>();
  auto* const to = given.out.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < given.rows; row += cuda_rows)
    check_launch("inference_linear", cuda_products({m.format,
                                                    m.inputs,
                                                    m.group,
                                                    1,
                                                    {{m.weight, m.scales, m.zeros, {}, m.outputs}},
                                                    from + row * m.inputs,
                                                    std::min(cuda_rows, given.rows - row),
                                                    to + row * m.outputs,
                                                    m.outputs},
                                                   current_stream(x.device())));
  return linear_result(given, x, bias);
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) {
  m.impl("inference_decode", decode);
  m.impl("inference_quantize", quantize);
  m.impl("inference_dequantize", dequantize);
  m.impl("inference_linear", linear);
}

}  // namespace
}  // namespace anyaccel::ops
