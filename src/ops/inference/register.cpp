// Registers torch.ops.anyaccel.inference_decode: schema, checks, threads, meta kernel.
#include "ATen/ops/empty.h"
#include "ATen/ops/to.h"
#include "ops/inference/given.h"
#include "ops/support/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void decode(const Tensor& x, const OptionalTensors& weights, at::TensorList keys, at::TensorList values,
            at::TensorList angles, at::IntArrayRef past, at::IntArrayRef rows, at::IntArrayRef sizes,
            at::IntArrayRef windows, at::ArrayRef<double> numbers, const std::optional<Tensor>& logits,
            const std::optional<Tensor>& change, std::int64_t half) {
  const Decoder decoder =
      make_decoder({x, weights, keys, values, angles, past, rows, sizes, windows, numbers, logits, change, half});
  const std::int64_t threads = task_threads();
  const Tensor scratch = at::empty({decoder_scratch(decoder, threads) + 64}, at::TensorOptions(at::kByte));
  auto address = reinterpret_cast<std::uintptr_t>(scratch.mutable_data_ptr());
  address = (address + 63) / 64 * 64;
  float* out = decoder.head.matrix.outputs ? static_cast<float*>(changed_memory(*logits)) : nullptr;
  float* const part = half ? static_cast<float*>(changed_memory(*change)) : nullptr;
  run_decoder(best_isa(), decoder, static_cast<float*>(half ? x.data_ptr() : changed_memory(x)), out,
              reinterpret_cast<void*>(address), threads, static_cast<Half>(half), part);
}

void decode_meta(const Tensor&, const OptionalTensors&, at::TensorList, at::TensorList, at::TensorList, at::IntArrayRef,
                 at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, at::ArrayRef<double>, const std::optional<Tensor>&,
                 const std::optional<Tensor>&, std::int64_t) {}

constexpr const char* decode_schema =
    "inference_decode(Tensor(a!) x, Tensor?[] weights, Tensor(b!)[] keys, Tensor(c!)[] values, Tensor[] angles, "
    "int[] past, int[] rows, int[] sizes, int[] windows, float[] numbers, Tensor(d!)? logits=None, "
    "Tensor(e!)? change=None, int half=0) -> ()";

TORCH_LIBRARY_FRAGMENT(anyaccel, m) { m.def(decode_schema); }
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("inference_decode", decode); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("inference_decode", decode_meta); }

}  // namespace
}  // namespace anyaccel::ops
