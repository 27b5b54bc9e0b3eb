// Registers torch.ops.anyaccel.inference_core_preprocess_weight and inference_core_wf6af16_linear:
// matrix products with 6-bit weights in host memory.
#include <atomic>

#include "ATen/core/Tensor.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mm.h"
#include "kernels/quantization/fp6.h"
#include "ops/shared/scratch.h"
#include "ops/shared/skinny_gemm_tensor.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using at::Tensor;

constexpr const char* pack_where = "preprocess_weight";
constexpr const char* where = "cuda_wf6af16_linear";
/// Number of weights that are widened at a time. For matrix products with few rows, few_elements
/// fit in each core's cache; for matrix products with many rows, many_elements fit in the shared
/// cache.
constexpr std::int64_t few_elements = 1 << 16, many_elements = 1 << 19;

std::tuple<Tensor, Tensor> empty_packed(const Tensor& weight) {
  if (weight.dim() != 2 || weight.scalar_type() != at::kHalf || weight.layout() != at::kStrided)
    fail_argument(pack_where, "the weight has the wrong shape or dtype", words(weight),
                  "float16 [outputs, inputs]");
  if (weight.sym_size(1) % six_block != 0)
    fail_argument(pack_where, "the number of inputs is not a multiple of 64", words(weight),
                  "a multiple of 64", "pad the weight and the inputs with zeros");
  const auto options = weight.options().dtype(at::kByte).requires_grad(false);
  return {at::empty_symint({weight.sym_numel() / 4}, options),
          at::empty_symint({weight.sym_numel() / 2}, options)};
}

std::tuple<Tensor, Tensor> preprocess_weight(const Tensor& weight) {
  auto packed = empty_packed(weight);
  const Tensor dense = weight.contiguous();
  const auto* from = static_cast<const Fp16*>(dense.const_data_ptr());
  auto* const two = std::get<0>(packed).mutable_data_ptr<std::uint8_t>();
  auto* const four = std::get<1>(packed).mutable_data_ptr<std::uint8_t>();
  std::atomic<std::int64_t> bad{-1};
  const std::int64_t inputs = dense.size(1);
  parallel_tasks(
      dense.size(0), dense.numel() < few_elements ? 1 : task_threads(),
      [&](std::int64_t row, std::int64_t) {
        const std::int64_t begin = row * inputs;
        if (const auto at = to_six_bits(from + begin, inputs, two + begin / 4, four + begin / 2);
            at >= 0)
          bad = begin + at;
      });
  if (bad >= 0)
    fail_argument(pack_where, "a weight is not representable in FP6",
                  std::to_string(static_cast<float>(
                      static_cast<const c10::Half*>(dense.const_data_ptr())[bad])),
                  "0, or a magnitude from 1/16 to 28", "divide each row by its scale, and round");
  return packed;
}

void check(const Tensor& out, const Tensor& x, const Tensor& two, const Tensor& four,
           const Tensor& scale, const c10::SymInt& outputs, const c10::SymInt& tokens,
           const c10::SymInt& inputs) {
  for (const Tensor* each : {&out, &x, &two, &four, &scale})
    check_dense_on(where, "an argument", *each, out);
  if (outputs < 0 || tokens < 0 || inputs < 0 || inputs % six_block != 0)
    fail_argument(where, "the sizes are out of range",
                  c10::str(outputs, " outputs, ", tokens, " tokens, ", inputs, " inputs"),
                  "0 or more, and inputs in multiples of 64");
  const auto fits = [](const Tensor& t, const c10::SymInt& rows, const c10::SymInt& columns) {
    return t.scalar_type() == at::kHalf && t.dim() == 2 && t.sym_size(0) == rows &&
           t.sym_size(1) == columns;
  };
  if (!fits(out, tokens, outputs) || !fits(x, tokens, inputs))
    fail_argument(
        where, "the result or the inputs have the wrong shape or dtype",
        c10::str(words(out), " and ", words(x)),
        c10::str("float16 [", tokens, ", ", outputs, "] and [", tokens, ", ", inputs, "]"));
  if (two.scalar_type() != at::kByte || four.scalar_type() != at::kByte ||
      two.sym_numel() * 4 != outputs * inputs || four.sym_numel() * 2 != outputs * inputs)
    fail_argument(
        where, "the weights have the wrong size or dtype",
        c10::str(words(two), " and ", words(four)),
        c10::str("uint8 tensors with a quarter and half of ", outputs, " * ", inputs, " elements"),
        "create them with preprocess_weight()");
  if (scale.scalar_type() != at::kHalf || scale.sym_numel() != outputs)
    fail_argument(where, "the scales have the wrong size or dtype", words(scale),
                  c10::str(outputs, " float16 elements"));
}

struct Product {
  Isa isa = best_isa();
  SixBits weight;
  /// float32 [tokens, inputs], float32 [outputs] and float16 [tokens, outputs].
  Tensor rows, scale, out;
  std::int64_t outputs, tokens;

  void store(const float* sums, std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const float* const by = scale.const_data_ptr<float>();
    auto* const to = static_cast<c10::Half*>(out.mutable_data_ptr()) + row * outputs;
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = static_cast<c10::Half>(sums[i - begin] * (by[i] * six_unit));
  }
};

void few(const Product& p) {
  Matrix matrix;
  matrix.format = Format::fp16;
  matrix.inputs = p.weight.inputs;
  const std::int64_t bytes = prepared_bytes(matrix.format, matrix.inputs);
  const ScratchMemory<float> prepared(p.tokens * bytes / 4);
  prepare_rows(p.isa, matrix, p.rows.const_data_ptr<float>(), p.tokens, prepared.of(0));
  const std::int64_t tile =
      std::clamp<std::int64_t>(few_elements / p.weight.inputs / tile_outputs, 1, 16) * tile_outputs;
  const ScratchMemory<Fp16> widened(tile * p.weight.inputs);
  const ScratchMemory<float> sums(p.tokens * tile);
  parallel_tasks((p.outputs + tile - 1) / tile, widened.threads(),
                 [&](std::int64_t task, std::int64_t thread) {
                   const std::int64_t begin = task * tile, end = std::min(p.outputs, begin + tile);
                   from_six_bits(p.isa, p.weight, begin, end, widened.of(thread));
                   Matrix here = matrix;
                   here.outputs = end - begin, here.weight = widened.of(thread);
                   multiply_rows(p.isa, here, prepared.of(0), p.tokens, 0, here.outputs,
                                 sums.of(thread), tile);
                   for (std::int64_t row = 0; row < p.tokens; ++row)
                     p.store(sums.of(thread) + row * tile, row, begin, end);
                 });
}

void many(const Product& p) {
  const std::int64_t step = std::clamp<std::int64_t>(many_elements / p.weight.inputs, 64, 4096);
  const Tensor widened = empty({std::min(step, p.outputs), p.weight.inputs}, p.out.options());
  auto* const to = static_cast<Fp16*>(widened.mutable_data_ptr());
  for (std::int64_t begin = 0; begin < p.outputs; begin += step) {
    const std::int64_t end = std::min(p.outputs, begin + step);
    parallel_tasks(end - begin, task_threads(), [&](std::int64_t row, std::int64_t) {
      from_six_bits(p.isa, p.weight, begin + row, begin + row + 1, to + row * p.weight.inputs);
    });
    const Tensor sums =
        at::mm(p.rows, widened.narrow(0, 0, end - begin).to(at::kFloat).t()).contiguous();
    const float* const from = sums.const_data_ptr<float>();
    parallel_tasks(p.tokens, task_threads(), [&](std::int64_t row, std::int64_t) {
      p.store(from + row * (end - begin), row, begin, end);
    });
  }
}

void linear(const Tensor& out, const Tensor& x, const Tensor& two, const Tensor& four,
            const Tensor& scale, std::int64_t outputs, std::int64_t tokens, std::int64_t inputs) {
  check(out, x, two, four, scale, outputs, tokens, inputs);
  const at::AutoDispatchBelowADInplaceOrView below;
  if (tokens == 0 || outputs == 0) return;
  if (inputs == 0) return void(out.zero_());
  const Tensor twos = two.contiguous(), fours = four.contiguous();
  Product p;
  p.weight = {inputs, twos.const_data_ptr<std::uint8_t>(), fours.const_data_ptr<std::uint8_t>()};
  p.rows = x.to(at::kFloat).contiguous();
  p.scale = scale.to(at::kFloat).contiguous();
  p.out = out.is_contiguous() ? out : empty(out.sizes(), out.options().requires_grad(false));
  p.outputs = outputs, p.tokens = tokens;
  tokens <= max_few_wide_rows ? few(p) : many(p);
  changed_memory(out);
  if (!p.out.is_same(out)) out.copy_(p.out);
}

void linear_meta(const Tensor& out, const Tensor& x, const Tensor& two, const Tensor& four,
                 const Tensor& scale, c10::SymInt outputs, c10::SymInt tokens, c10::SymInt inputs) {
  check(out, x, two, four, scale, outputs, tokens, inputs);
}

#define OP(name) "inference_core_" name

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(OP("preprocess_weight(Tensor weight) -> (Tensor, Tensor)"));
  m.def(
      OP("wf6af16_linear(Tensor(a!) out, Tensor hidden_states, Tensor weights_2bit, Tensor "
         "weights_4bit, Tensor scale, "
         "SymInt out_channels, SymInt tokens, SymInt in_channels) -> ()"));
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl(OP("preprocess_weight"), preprocess_weight);
  m.impl(OP("wf6af16_linear"), linear);
}
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl(OP("preprocess_weight"), empty_packed);
  m.impl(OP("wf6af16_linear"), linear_meta);
}

}  // namespace
}  // namespace anyaccel::ops
