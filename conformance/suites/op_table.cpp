#include "op_table.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/var.h>
#include <ATen/ops/where.h>

namespace anyaccel::conformance {

namespace {

// The inputs are functions instead of constants, because the table may be built before constants in
// other source files are initialized. Sizes are odd, so that vectorized loops have remainders.
Input plain() { return {{37, 53}}; }
Input row() { return {{53}}; }
Input positive() { return {{37, 53}, 0.1, 4}; }
// Bounded away from zero. Otherwise, a quotient or its gradient could become very large.
Input divisor() { return {{37, 53}, 0.5, 2}; }

Op elementwise(const char* name, at::Tensor (*run)(const at::Tensor&), const Input& input,
               double factor) {
  return {.name = name,
          .inputs = {input},
          .run = [run](const Inputs& x) { return run(x[0]); },
          .factor = factor,
          .backward = true};
}

std::vector<Op> make_elementwise() {
  return {
      {.name = "add",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::add(x[0], x[1], /*alpha=*/2); },
       .whole = true},
      {.name = "add_broadcast",
       .inputs = {plain(), row()},
       .run = [](const Inputs& x) { return at::add(x[0], x[1]); },
       .whole = true},
      {.name = "add_strided",
       .inputs = {{{53, 37}}, plain()},
       .run = [](const Inputs& x) { return at::add(x[0].t(), x[1]); },
       .whole = true},
      {.name = "sub",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::sub(x[0], x[1]); },
       .whole = true},
      {.name = "mul",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::mul(x[0], x[1]); },
       .backward = true,
       .whole = true},
      {.name = "div",
       .inputs = {plain(), divisor()},
       .run = [](const Inputs& x) { return at::div(x[0], x[1]); },
       .factor = 2,
       .summed = true,
       .backward = true},
      {.name = "maximum",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::maximum(x[0], x[1]); },
       .whole = true},
      {.name = "pow",
       .inputs = {positive()},
       .run = [](const Inputs& x) { return at::pow(x[0], 2.5); },
       .factor = 8,
       .backward = true},
      {.name = "clamp",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::clamp(x[0], -1, 1); },
       .whole = true},
      {.name = "where",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::where(x[0].gt(x[1]), x[0], x[1]); },
       .whole = true},
      {.name = "eq",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::eq(x[0].round(), x[1].round()); },
       .whole = true},
      {.name = "lerp",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::lerp(x[0], x[1], 0.25); },
       .factor = 4,
       .summed = true},
      {.name = "addcdiv",
       .inputs = {plain(), plain(), divisor()},
       .run = [](const Inputs& x) { return at::addcdiv(x[0], x[1], x[2], 0.5); },
       .factor = 4,
       .summed = true},
      {.name = "masked_fill",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::masked_fill(x[0], x[0].lt(0), 3); },
       .whole = true},
      elementwise("neg", at::neg, plain(), 1),
      elementwise("abs", at::abs, plain(), 1),
      elementwise("exp", at::exp, plain(), 4),
      elementwise("log", at::log, {{37, 53}, 1.5, 6}, 4),
      elementwise("sqrt", at::sqrt, positive(), 4),
      elementwise("rsqrt", at::rsqrt, positive(), 8),
      elementwise("sin", at::sin, {{37, 53}, 0.2, 1.3}, 4),
      elementwise("cos", at::cos, {{37, 53}, 0.2, 1.3}, 4),
      elementwise("tanh", at::tanh, {{37, 53}, -1.5, 1.5}, 12),
      elementwise("sigmoid", at::sigmoid, plain(), 8),
      elementwise("relu", at::relu, plain(), 1),
      {.name = "silu",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::silu(x[0]); },
       .factor = 8,
       .summed = true,
       .backward = true},
      {.name = "gelu",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::gelu(x[0]); },
       .factor = 8,
       .summed = true,
       .backward = true},
  };
}

std::vector<Op> make_reductions() {
  return {
      {.name = "sum",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::sum(x[0], {1}); },
       .factor = 8,
       .summed = true,
       .backward = true,
       .whole = true},
      {.name = "mean",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::mean(x[0], at::IntArrayRef{0}); },
       .factor = 8,
       .summed = true,
       .backward = true},
      {.name = "var",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::var(x[0], at::OptionalIntArrayRef({1})); },
       .factor = 16,
       .summed = true},
      {.name = "vector_norm",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::linalg_vector_norm(x[0], 2); },
       .factor = 8,
       .summed = true},
      {.name = "amax",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::amax(x[0], {1}); },
       .whole = true},
      {.name = "argmax",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::argmax(x[0], 1); }},
      {.name = "cumsum",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::cumsum(x[0], 1); },
       .factor = 64,
       .summed = true,
       .whole = true},
      {.name = "sort",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return std::get<0>(at::sort(x[0], 1)); },
       .whole = true},
      {.name = "topk",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return std::get<0>(at::topk(x[0], 5)); },
       .whole = true},
      {.name = "softmax",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::softmax(x[0], 1); },
       .factor = 8,
       .summed = true,
       .backward = true},
      {.name = "log_softmax",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::log_softmax(x[0], 1); },
       .factor = 8,
       .summed = true,
       .backward = true},
      {.name = "layer_norm",
       .inputs = {plain(), row(), row()},
       .run = [](const Inputs& x) { return at::layer_norm(x[0], {53}, x[1], x[2]); },
       .factor = 16,
       .summed = true,
       .backward = true},
      {.name = "rms_norm",
       .inputs = {plain(), row()},
       .run = [](const Inputs& x) { return at::rms_norm(x[0], {53}, x[1]); },
       .factor = 16,
       .summed = true,
       .backward = true},
      {.name = "mse_loss",
       .inputs = {plain(), plain()},
       .run = [](const Inputs& x) { return at::mse_loss(x[0], x[1]); },
       .factor = 16,
       .summed = true,
       .backward = true},
      {.name = "cross_entropy",
       .inputs = {plain(), {{37}, 0, 53, true}},
       .run = [](const Inputs& x) { return at::cross_entropy_loss(x[0], x[1]); },
       .factor = 16,
       .summed = true,
       .backward = true},
  };
}

std::vector<Op> make_products() {
  const Input a{{33, 71}}, b{{71, 29}};
  return {
      {.name = "mm",
       .inputs = {a, b},
       .run = [](const Inputs& x) { return at::mm(x[0], x[1]); },
       .factor = 16,
       .summed = true,
       .backward = true},
      {.name = "mm_transposed",
       .inputs = {a, {{29, 71}}},
       .run = [](const Inputs& x) { return at::mm(x[0], x[1].t()); },
       .factor = 16,
       .summed = true},
      {.name = "bmm",
       .inputs = {{{3, 17, 23}}, {{3, 23, 11}}},
       .run = [](const Inputs& x) { return at::bmm(x[0], x[1]); },
       .factor = 16,
       .summed = true,
       .backward = true},
      {.name = "addmm",
       .inputs = {{{33, 29}}, a, b},
       .run = [](const Inputs& x) { return at::addmm(x[0], x[1], x[2], 0.5, 2); },
       .factor = 16,
       .summed = true},
      {.name = "linear",
       .inputs = {{{2, 9, 71}}, {{29, 71}}, {{29}}},
       .run = [](const Inputs& x) { return at::linear(x[0], x[1], x[2]); },
       .factor = 16,
       .summed = true,
       .backward = true},
      {.name = "conv2d",
       .inputs = {{{2, 3, 14, 15}}, {{5, 3, 3, 3}}, {{5}}},
       .run =
           [](const Inputs& x) {
             return at::conv2d(x[0], x[1], x[2], {2, 1}, {1, 1});
           },
       .factor = 24,
       .summed = true,
       .backward = true},
      {.name = "attention",
       .inputs = {{{2, 3, 11, 16}}, {{2, 3, 11, 16}}, {{2, 3, 11, 16}}},
       .run =
           [](const Inputs& x) {
             return at::scaled_dot_product_attention(x[0], x[1], x[2], std::nullopt, 0.0,
                                                     /*is_causal=*/true);
           },
       .factor = 32,
       .summed = true,
       .backward = true},
  };
}

std::vector<Op> make_moves() {
  return {
      {.name = "embedding",
       .inputs = {{{19, 13}}, {{7, 5}, 0, 19, true}},
       .run = [](const Inputs& x) { return at::embedding(x[0], x[1]); },
       .factor = 8,
       .backward = true},
      {.name = "index_select",
       .inputs = {plain(), {{11}, 0, 37, true}},
       .run = [](const Inputs& x) { return at::index_select(x[0], 0, x[1]); },
       .factor = 8,
       .backward = true,
       .whole = true},
      {.name = "gather",
       .inputs = {plain(), {{37, 9}, 0, 53, true}},
       .run = [](const Inputs& x) { return at::gather(x[0], 1, x[1]); },
       .factor = 8,
       .backward = true,
       .whole = true},
      {.name = "scatter_add",
       .inputs = {plain(), {{37, 9}, 0, 53, true}, {{37, 9}}},
       .run = [](const Inputs& x) { return at::scatter_add(x[0], 1, x[1], x[2]); },
       .factor = 8,
       .summed = true,
       .whole = true},
      {.name = "cat",
       .inputs = {plain(), {{5, 53}}},
       .run =
           [](const Inputs& x) {
             return at::cat({x[0], x[1]});
           },
       .backward = true,
       .whole = true},
      {.name = "transpose",
       .inputs = {{{5, 6, 7}}},
       .run = [](const Inputs& x) { return x[0].transpose(0, 2).contiguous(); },
       .backward = true,
       .whole = true},
      {.name = "tril",
       .inputs = {plain()},
       .run = [](const Inputs& x) { return at::tril(x[0]); },
       .whole = true},
      {.name = "flip_narrow",
       .inputs = {plain()},
       .run =
           [](const Inputs& x) {
             return x[0].narrow(1, 3, 20).flip({0, 1});
           },
       .whole = true},
  };
}

}  // namespace

const std::vector<Op>& op_table() {
  static const auto* table = [] {
    auto* all = new std::vector<Op>;
    for (const auto& part : {make_elementwise(), make_reductions(), make_products(), make_moves()})
      all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return *table;
}

}  // namespace anyaccel::conformance
