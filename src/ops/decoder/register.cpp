// Registers torch.ops.anyaccel.inference_decode: schema, checks, threads, meta kernel.
#include "ATen/ops/empty.h"
#include "ATen/ops/to.h"
#include "ops/decoder/arguments.h"
#include "kernels/decoder/panels.h"
#include "kernels/decoder/prefill.h"
#include "ops/shared/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void decode(const Tensor& x, const OptionalTensors& weights, at::TensorList keys, at::TensorList values,
            at::TensorList angles, at::IntArrayRef past, at::IntArrayRef rows, at::IntArrayRef sizes,
            at::IntArrayRef windows, at::ArrayRef<double> numbers, const std::optional<Tensor>& logits,
            const std::optional<Tensor>& change, std::int64_t half, const std::string& sum_group, std::int64_t sums) {
  check_on_host("inference_decode", "x", x);
  const Decoder decoder = make_decoder(
      {x, weights, keys, values, angles, past, rows, sizes, windows, numbers, logits, change, half, sum_group, sums});
  const std::int64_t threads = task_threads();
  const bool many = x.size(0) > most_rows;
  const Isa isa = best_isa();
  const std::int64_t bytes = many ? prefill_scratch(isa, decoder, threads) : decoder_scratch(decoder, threads);
  const Tensor scratch = at::empty({bytes + 64}, at::TensorOptions(at::kByte));
  auto address = reinterpret_cast<std::uintptr_t>(scratch.mutable_data_ptr());
  address = (address + 63) / 64 * 64;
  float* out = decoder.head.matrix.outputs ? static_cast<float*>(changed_memory(*logits)) : nullptr;
  float* const part = half ? static_cast<float*>(changed_memory(*change)) : nullptr;
  auto* const in = static_cast<float*>(half ? x.data_ptr() : changed_memory(x));
  auto* const run = many ? run_prefill : run_decoder;
  run(isa, decoder, in, out, reinterpret_cast<void*>(address), threads, static_cast<Half>(half), part);
}

void decode_meta(const Tensor&, const OptionalTensors&, at::TensorList, at::TensorList, at::TensorList, at::IntArrayRef,
                 at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, at::ArrayRef<double>, const std::optional<Tensor>&,
                 const std::optional<Tensor>&, std::int64_t, const std::string&, std::int64_t) {}

constexpr const char* decode_schema =
    "inference_decode(Tensor(a!) x, Tensor?[] weights, Tensor(b!)[] keys, Tensor(c!)[] values, Tensor[] angles, "
    "int[] past, int[] rows, int[] sizes, int[] windows, float[] numbers, Tensor(d!)? logits=None, "
    "Tensor(e!)? change=None, int half=0, str sum_group='', int sums=0) -> ()";

/// Rows of one call that are faster here than LibTorch's own products, for a model of this type.
std::int64_t decode_rows(at::ScalarType dtype) {
  const Element model = dtype == at::kBFloat16 ? Element::bf16 : dtype == at::kHalf ? Element::fp16 : Element::f32;
  return panels_pay(best_isa(), model) ? most_prefill_rows : most_rows;
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(decode_schema);
  m.def("inference_decode_rows(ScalarType dtype) -> int", decode_rows);
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("inference_decode", decode); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("inference_decode", decode_meta); }

}  // namespace
}  // namespace anyaccel::ops
