// The matrix product of a few rows and a weight, as a separate op. Layers call it if no gradient is
// required.
#include <algorithm>

#include "ATen/core/dispatch/Dispatcher.h"
#include "kernels/transformer/transposed_rows.h"
#include "ops/shared/skinny_gemm_tensor.h"
#include "ops/transformer_inference/layers.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void multiply_turned_tensor(const Tensor& weight, const Tensor& rows, Element element, float* to) {
  const TurnedProduct product{rows.size(0), weight.size(0),          weight.size(1),
                              element,      weight.const_data_ptr(), rows.const_data_ptr<float>()};
  const Isa isa = best_isa();
  const std::int64_t parts = turned_parts(product.inputs), apart = product.rows * product.outputs;
  const Tensor sums = empty({parts * apart}, at::TensorOptions(at::kFloat));
  auto* const all = sums.mutable_data_ptr<float>();
  const std::int64_t threads = task_threads(), tile = 4096, tiles = (apart + tile - 1) / tile;
  parallel_tasks(parts, threads, [&](std::int64_t part, std::int64_t) {
    multiply_turned(isa, product, part, all + part * apart);
  });
  parallel_tasks(tiles, threads, [&](std::int64_t at, std::int64_t) {
    const std::int64_t begin = at * tile, end = std::min(apart, begin + tile);
    add_parts(isa, parts, apart, begin, end, all);
    std::copy(all + begin, all + end, to + begin);
  });
}

Tensor skinny_gemm_cpu(const Tensor& x, const Tensor& weight, bool transposed) {
  constexpr const char* where = "transformer_inference_skinny_gemm";
  check_on_host(where, "the rows", x);
  check_on_host(where, "the weights", weight);
  const Element element = element_of(where, "the weights", weight);
  const std::int64_t inputs = weight.dim() == 2 ? weight.size(transposed ? 1 : 0) : 0;
  if (weight.dim() != 2 || !weight.is_contiguous() || x.dim() < 1 || x.size(-1) != inputs ||
      x.scalar_type() != weight.scalar_type() || inputs == 0)
    fail_argument(
        where, "the shapes or dtypes of rows and weights do not match",
        c10::str(words(x), " and ", words(weight)),
        "equal dtypes, contiguous weights, and as many channels as the weights have inputs");
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(transposed ? 0 : 1);
  const Tensor rows = x.reshape({x.numel() / inputs, inputs}).to(at::kFloat).contiguous();
  const Tensor out = empty(sizes, at::TensorOptions(at::kFloat));
  if (out.numel() > 0)
    (transposed ? multiply_skinny_gemm : multiply_turned_tensor)(weight, rows, element,
                                                                 out.mutable_data_ptr<float>());
  return out.to(x.scalar_type());
}

Tensor skinny_gemm_meta(const Tensor& x, const Tensor& weight, bool transposed) {
  auto sizes = x.sym_sizes().vec();
  sizes.back() = weight.sym_size(transposed ? 0 : 1);
  return x.new_empty_symint(sizes);
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("transformer_inference_skinny_gemm(Tensor x, Tensor weight, bool transposed) -> Tensor");
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("transformer_inference_skinny_gemm", skinny_gemm_cpu);
}
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("transformer_inference_skinny_gemm", skinny_gemm_meta);
}

}  // namespace

bool takes_skinny_gemm(const Tensor& x, const Tensor& weight, bool transposed) {
  const bool gradient =
      c10::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  const auto type = weight.scalar_type();
  if (!x.is_cpu() || gradient || !weight.is_contiguous() ||
      weight.sym_numel() < min_skinny_gemm_weights ||
      (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf))
    return false;
  return x.sym_numel() <= x.sym_size(-1) * (transposed ? max_few_wide_rows : max_turned_rows);
}

Tensor skinny_gemm(const Tensor& x, const Tensor& weight, bool transposed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("anyaccel::transformer_inference_skinny_gemm", "")
                             .typed<Tensor(const Tensor&, const Tensor&, bool)>();
  return op.call(x, weight, transposed);
}

}  // namespace anyaccel::ops
