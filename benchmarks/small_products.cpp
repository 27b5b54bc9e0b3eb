// Times the implementations of attention and of matrix products with few rows in src/kernels, in
// float32 with one thread. All run the same shapes, so the figures show which implementation could
// replace which.
#include <algorithm>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "kernels/attention/evoformer.h"
#include "kernels/decoder/panel_attention.h"
#include "kernels/decoder/rows.h"
#include "kernels/transformer/attention.h"
#include "kernels/transformer/skinny_gemm.h"
#include "kernels/transformer/transposed_rows.h"
#include "timing.h"

namespace {

using namespace anyaccel::ops;
using Size = std::int64_t;

/// Normally distributed floats in page-aligned memory.
class Floats {
 public:
  explicit Floats(Size size)
      : at_(new (std::align_val_t{4096}) float[static_cast<std::size_t>(size)]) {
    static std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (Size i = 0; i < size; ++i) at_[i] = normal(random);
  }
  Floats(Floats&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  ~Floats() { ::operator delete[](at_, std::align_val_t{4096}); }
  operator float*() const { return at_; }

 private:
  float* at_;
};

constexpr Size width = 768;  // number of inputs and number of outputs of a weight matrix
// Number of copies of the weight, 54 MiB in total, so that each call reads its copy from memory and
// not from a cache.
constexpr Size copies = 24;
constexpr Size positions = 1024, dim = 64;

/// Returns the microseconds per call of `function` with a copy of the weight.
template <typename Function>
double with_weights(const std::vector<Floats>& weights, const Function& function) {
  std::size_t next = 0;
  return benchmarks::nanoseconds([&] { function(weights[next++ % weights.size()]); }) / 1e3;
}

void few_rows(Isa isa, Size rows, const std::vector<Floats>& weights,
              benchmarks::Numbers& numbers) {
  const std::string tail = "_" + std::to_string(rows) + "_us";
  const Floats from(rows * width), to(rows * width), packed(64 * width);
  Floats prepared(rows * (width + 16));
  const auto matrix = [](const float* weight) {
    return Matrix{Format::f32, width, width, 0, weight, nullptr, nullptr};
  };
  numbers.add("dots" + tail, with_weights(weights, [&](const float* weight) {
                prepare_rows(isa, matrix(weight), from, rows, prepared);
                multiply_rows(isa, matrix(weight), prepared, rows, 0, width, to, width);
              }));
  numbers.add("skinny" + tail, with_weights(weights, [&](const float* weight) {
                const SkinnyGemm product{rows, width, width, weight};
                pack_skinny_gemm(isa, product, from, 0, width, packed);
                for (Size output = 0; output < width; output += skinny_gemm_outputs)
                  skinny_gemm_forward(isa, product, packed, nullptr, output, to);
              }));
  // The weights are interpreted as packed panels.
  numbers.add("panels" + tail, with_weights(weights, [&](const float* weight) {
                for (Size output = 0; output < width; output += panel_outputs)
                  multiply_panel(isa, Wide::f32, weight + output * width, width, from, width * 4,
                                 rows, to + output, width);
              }));
  // The weights are stored as [inputs][outputs].
  numbers.add("skinny_turned" + tail, with_weights(weights, [&](const float* weight) {
                skinny_gemm_backward(isa, {rows, width, width, weight}, from, false, 0, width, to);
              }));
  if (rows > max_turned_rows) return;
  Floats parts(turned_parts(width) * rows * width);
  numbers.add("turned" + tail, with_weights(weights, [&](const float* weight) {
                for (Size part = 0; part < turned_parts(width); ++part)
                  multiply_turned(isa, {rows, width, width, Element::f32, weight, from}, part,
                                  parts + part * rows * width);
                for (Size row = 0; row < rows; ++row)
                  add_parts(isa, turned_parts(width), rows * width, 0, width, parts + row * width);
              }));
}

void one_query(Isa isa, benchmarks::Numbers& numbers) {
  const Floats query(dim), keys(positions * dim), values(positions * dim), scores(positions + 64),
      out(dim);
  const CachedHead head{keys, values, Element::f32, dim, 0, positions, 0.125F, 0};
  numbers.add("one_query_us",
              benchmarks::nanoseconds([&] { attend_row(isa, head, query, scores, out); }) / 1e3);
  Floats panel(panel_bytes(Wide::f32, positions) / 4), widened(panel_scratch_bytes(dim) / 4);
  const PanelAttention panels{isa, Wide::f32, reinterpret_cast<char*>(static_cast<float*>(panel)),
                              reinterpret_cast<char*>(static_cast<float*>(widened))};
  const Matrix matrix{Format::f32, positions, dim, 0, keys, nullptr, nullptr};
  numbers.add(
      "one_query_by_panels_us",
      benchmarks::nanoseconds([&] {
        panels.score(matrix, {query, 1, dim * 4}, scores, positions);
        const float sum = attention_shares_row(isa, 0.125F, 0, scores, positions);
        panels.mix(values, Element::f32, positions, dim, {scores, 1, positions * 4}, out, dim);
        for (Size i = 0; i < dim; ++i) out[i] /= sum;
      }) / 1e3);
}

/// Times attention of 256 queries to 256 keys with a [query][key] bias, for all kernels that
/// support a bias.
void biased(Isa isa, benchmarks::Numbers& numbers) {
  constexpr Size length = 256, head_dim = 32;
  const Floats q(length * head_dim), k(length * head_dim), v(length * head_dim),
      bias(length * length);
  const Floats out(length * head_dim), stats(2 * length);
  const Floats scratch(
      std::max(full_attention_scratch(head_dim), evoformer_forward_scratch(length, head_dim)));
  const EvoformerHead<float> one{q,      k,      v,        head_dim, head_dim, head_dim,
                                 length, length, head_dim, 0.2F,     nullptr,  bias,
                                 length, out,    head_dim, stats};
  numbers.add("biased_evoformer_us", benchmarks::nanoseconds([&] {
                                       evoformer_forward(isa, Element::f32, one, 0, length,
                                                         scratch);
                                     }) / 1e3);
  const FullAttention<float> other{q,      k, v,   head_dim, length, head_dim, 0.2F, bias,
                                   length, 1, out, head_dim, stats,  {},       0};
  numbers.add("biased_query_tile_us", benchmarks::nanoseconds([&] {
                                        for (Size query = 0; query < length;
                                             query += attention_tile)
                                          full_attention(isa, other, query, scratch);
                                      }) / 1e3);
}

}  // namespace

int main() {
  const Isa isa = best_isa();
  benchmarks::Numbers numbers;
  std::vector<Floats> weights;
  for (Size i = 0; i < copies; ++i) weights.emplace_back(width * width);
  for (const Size rows : {1, 4, 16, 48}) few_rows(isa, rows, weights, numbers);
  one_query(isa, numbers);
  biased(isa, numbers);
  numbers.print();
}
