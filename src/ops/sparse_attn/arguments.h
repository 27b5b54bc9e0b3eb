// Arguments of an attention call and their validation.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Grads = std::tuple<Tensor, Tensor, Tensor, Tensor>;
constexpr const char* where = "sparse_attention";

/// The parameter list of the ops, and the corresponding initializers of Arguments.
#define SPARSE_ATTN_GIVEN                                                                      \
  const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &layout, std::int64_t block, \
      std::optional<double> scale, const OptionalTensor &rpe,                                  \
      const OptionalTensor &key_padding_mask, const OptionalTensor &attn_mask,                 \
      c10::string_view key_padding_mask_mode, c10::string_view attn_mask_mode
#define SPARSE_ATTN_PASSED                                                                \
  q, k, v, layout, block, scale, rpe, key_padding_mask, attn_mask, key_padding_mask_mode, \
      attn_mask_mode

/// Arguments that the forward and backward passes share.
struct Arguments {
  const Tensor &q, &k, &v, &layout;
  std::int64_t block;
  std::optional<double> scale;
  const OptionalTensor &rpe, &key_padding_mask, &attn_mask;
  c10::string_view key_padding_mask_mode, attn_mask_mode;

  double factor() const {
    return scale ? *scale
                 : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.size(3))));
  }
};

bool is_given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

bool multiplies(const char* name, c10::string_view mode) {
  if (mode != "add" && mode != "mul")
    fail_argument(where, std::string(name) + " is unknown", std::string(mode), "add or mul");
  return mode == "mul";
}

void check_broadcast(const char* name, const OptionalTensor& tensor, at::IntArrayRef full) {
  if (!is_given(tensor)) return;
  if (tensor->is_complex())
    fail_argument(where, std::string(name) + " is complex", words(*tensor), "real numbers or bool");
  bool fits = tensor->dim() <= static_cast<std::int64_t>(full.size());
  for (std::int64_t i = 1; fits && i <= tensor->dim(); ++i)
    fits = tensor->size(-i) == 1 ||
           tensor->size(-i) == full[full.size() - static_cast<std::size_t>(i)];
  if (!fits)
    fail_argument(where, std::string(name) + " has the wrong shape", words(*tensor),
                  "a shape that expands to " + c10::str(full));
}

void check_types(const Arguments& g) {
  if (g.q.dim() != 4)
    fail_argument(where, "the query is not 4-dimensional", words(g.q),
                  "[batch, heads, sequence, head dim]");
  if (g.q.scalar_type() != at::kDouble) element_of(where, "the query", g.q);
  for (const Tensor* other : {&g.k, &g.v})
    if (other->scalar_type() != g.q.scalar_type() || other->dim() != 4)
      fail_argument(where, "query, key and value differ in dtype or shape", words(*other),
                    words(g.q));
  if (g.layout.dim() != 3 || c10::isComplexType(g.layout.scalar_type()) ||
      c10::isFloatingType(g.layout.scalar_type()))
    fail_argument(where, "the layout has the wrong shape or dtype", words(g.layout),
                  "int64 or bool [heads or 1, blocks, blocks]");
  if (g.block < 16 || g.block > 128 || g.block % 16)
    fail_argument(where, "the block size is not supported", std::to_string(g.block),
                  "a multiple of 16 from 16 to 128");
  if (g.scale && !std::isfinite(*g.scale))
    fail_argument(where, "the scale is not finite", std::to_string(*g.scale), "a finite number");
  multiplies("key_padding_mask_mode", g.key_padding_mask_mode);
  multiplies("attn_mask_mode", g.attn_mask_mode);
}

void check_sizes(const Arguments& g) {
  if (g.k.sizes() != g.q.sizes() || g.v.sizes() != g.q.sizes())
    fail_argument(where, "query, key and value differ in shape",
                  c10::str(g.k.sizes(), " and ", g.v.sizes()), words(g.q),
                  "only self-attention is supported");
  const std::int64_t heads = g.q.size(1), length = g.q.size(2), blocks = length / g.block;
  if (length % g.block)
    fail_argument(where, "the sequence length is not a multiple of the block size",
                  std::to_string(length), "a multiple of " + std::to_string(g.block),
                  "use pad_to_block_size");
  if ((g.layout.size(0) != heads && g.layout.size(0) != 1) || g.layout.size(1) != blocks ||
      g.layout.size(2) != blocks)
    fail_argument(where, "the layout has the wrong shape", words(g.layout),
                  c10::str("[", heads, ", ", blocks, ", ", blocks, "]"));
  check_broadcast("rpe", g.rpe, {g.q.size(0), heads, length, length});
  check_broadcast("key_padding_mask", g.key_padding_mask, {g.q.size(0), length});
  check_broadcast("attn_mask", g.attn_mask, {length, length});
}

/// Checks the additional arguments for the backward pass.
void check_results(const Arguments& g, const Tensor& grad_out, const Tensor& out,
                   const Tensor& stats) {
  const Tensor& q = g.q;
  const auto real = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  check_dense_on(where, "the gradient", grad_out, q);
  check_dense_on(where, "the result", out, q);
  check_dense_on(where, "the softmax statistics", stats, q);
  if (grad_out.sizes() != q.sizes() || out.sizes() != q.sizes() ||
      stats.sizes() != c10::IntArrayRef({q.size(0), q.size(1), q.size(2), 2}))
    fail_argument(where, "the gradient or the result has the wrong shape",
                  c10::str(grad_out.sizes(), out.sizes(), stats.sizes()), words(q));
  if (grad_out.scalar_type() != q.scalar_type() || out.scalar_type() != q.scalar_type() ||
      stats.scalar_type() != real)
    fail_argument(where, "the gradient or the result has the wrong dtype",
                  words(grad_out) + ", " + words(out) + ", " + words(stats), words(q));
}

[[maybe_unused]] void check_on_host(const Arguments& g) {
  ops::check_on_host(where, "the query", g.q);
  ops::check_on_host(where, "the key", g.k);
  ops::check_on_host(where, "the value", g.v);
  ops::check_on_host(where, "the layout", g.layout);
  if (is_given(g.rpe)) ops::check_on_host(where, "rpe", *g.rpe);
  if (is_given(g.key_padding_mask))
    ops::check_on_host(where, "key_padding_mask", *g.key_padding_mask);
  if (is_given(g.attn_mask)) ops::check_on_host(where, "attn_mask", *g.attn_mask);
}

}  // namespace
}  // namespace anyaccel::ops
