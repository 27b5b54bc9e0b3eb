// Registers torch.ops.anyaccel.inference_decode: schema, argument checks, threading and meta
// kernel.
#include "ATen/ops/empty.h"
#include "ATen/ops/to.h"
#include "kernels/decoder/panels.h"
#include "kernels/decoder/prefill.h"
#include "ops/decoder/arguments.h"
#include "ops/shared/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void decode(const Tensor& x, const OptionalTensors& weights, at::TensorList keys,
            at::TensorList values, at::TensorList angles, at::IntArrayRef past,
            at::IntArrayRef rows, at::IntArrayRef config, const std::optional<Tensor>& logits,
            const std::optional<Tensor>& change, const std::string& sum_group) {
  check_on_host("inference_decode", "x", x);
  const auto [decoder, half] = make_decoder(
      {x, weights, keys, values, angles, past, rows, config, logits, change, sum_group});
  const std::int64_t threads = task_threads();
  const bool many = x.size(0) > max_rows;
  const Isa isa = best_isa();
  const std::int64_t bytes =
      many ? prefill_scratch(isa, decoder, threads) : decoder_scratch(decoder, threads);
  const Tensor scratch = at::empty({bytes + 64}, at::TensorOptions(at::kByte));
  auto address = reinterpret_cast<std::uintptr_t>(scratch.mutable_data_ptr());
  address = (address + 63) / 64 * 64;
  float* out = decoder.head.matrix.outputs ? static_cast<float*>(changed_memory(*logits)) : nullptr;
  float* const part = half != Half::whole ? static_cast<float*>(changed_memory(*change)) : nullptr;
  auto* const in = static_cast<float*>(half != Half::whole ? x.data_ptr() : changed_memory(x));
  auto* const run = many ? run_prefill : run_decoder;
  run(isa, decoder, in, out, reinterpret_cast<void*>(address), threads, half, part);
}

void decode_meta(const Tensor&, const OptionalTensors&, at::TensorList, at::TensorList,
                 at::TensorList, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                 const std::optional<Tensor>&, const std::optional<Tensor>&, const std::string&) {}

constexpr const char* decode_schema =
    "inference_decode(Tensor(a!) x, Tensor?[] weights, Tensor(b!)[] keys, Tensor(c!)[] values, "
    "Tensor[] angles, "
    "int[] past, int[] rows, int[] config, Tensor(d!)? logits=None, Tensor(e!)? change=None, str "
    "sum_group='') -> ()";

/// Returns the largest number of rows per call for which this op is faster than LibTorch's matrix
/// products, for a model of the given dtype.
std::int64_t decode_rows(at::ScalarType dtype) {
  const Element model = dtype == at::kBFloat16 ? Element::bf16
                        : dtype == at::kHalf   ? Element::fp16
                                               : Element::f32;
  return panels_pay(best_isa(), model) ? max_prefill_rows : max_rows;
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(decode_schema);
  m.def("inference_decode_rows(ScalarType dtype) -> int", decode_rows);
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("inference_decode", decode); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("inference_decode", decode_meta); }

}  // namespace
}  // namespace anyaccel::ops
