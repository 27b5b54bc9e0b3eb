// Code shared by the layer's forward and backward passes, on the host and on devices: arguments,
// sizes, inputs of the norms and saved tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "ATen/ops/addmm.h"
#include "ATen/ops/mm.h"
#include "kernels/transformer/rows.h"
#include "ops/shared/empty.h"
#include "ops/transformer/arguments.h"

namespace anyaccel::ops {
namespace {

/// Returns the data pointer of a contiguous tensor, or null if the tensor is undefined.
template <typename S>
const S* read(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const S*>(tensor.const_data_ptr()) : nullptr;
}
template <typename S>
S* write(const Tensor& tensor) {
  return tensor.defined() ? static_cast<S*>(tensor.mutable_data_ptr()) : nullptr;
}

inline Dropout dropout_of(double ratio, std::int64_t seed, std::uint64_t which) {
  Dropout out;
  out.key = static_cast<std::uint64_t>(seed) + which * 0xd1342543de82ef95U;
  out.threshold = static_cast<std::uint32_t>(std::min(std::llround(ratio * 0x1p32), 0xffffffffLL));
  out.scale = 1 / (1 - ratio);
  return out;
}

/// The layer's sizes, contiguous arguments and dropout parameters.
struct LayerArguments {
  explicit LayerArguments(const TransformerArguments& arguments)
      : g(arguments),
        batch(g.input.size(0)),
        length(g.input.size(1)),
        hidden(g.input.size(2)),
        inter(g.inter_w.size(0)),
        rows(batch * length),
        head_dim(hidden / g.heads),
        input(g.input.contiguous().view({rows, hidden})),
        ob(g.attn_ob.contiguous()),
        nw(g.attn_nw.contiguous()),
        nb(g.attn_nb.contiguous()),
        inter_b(g.inter_b.contiguous()),
        output_b(g.output_b.contiguous()),
        norm_w(g.norm_w.contiguous()),
        norm_b(g.norm_b.contiguous()),
        attn_drop(dropout_of(g.attn_dropout, g.seed, 1)),
        attn_out_drop(dropout_of(g.hidden_dropout, g.seed, 2)),
        out_drop(dropout_of(g.hidden_dropout, g.seed, 3)) {}

  Tensor empty(at::IntArrayRef sizes) const { return ops::empty(sizes, g.input.options()); }
  /// Returns an uninitialized tensor in the compute dtype.
  Tensor reals(at::IntArrayRef sizes) const {
    return ops::empty(sizes, g.input.options().dtype(real_type()));
  }
  at::ScalarType real_type() const {
    return g.input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
  /// Returns the scale for the attention scores.
  double attention_scale() const {
    return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, head_dim)));
  }
  /// Returns whether the inputs of the norms are saved in addition to their results.
  bool keeps_sums(bool keep) const { return keep && !g.normalize_invertible; }

  /// Allocates the tensors that the forward pass needs first: the softmax statistics of attention,
  /// the statistics of the norms, and the result or input of a norm.
  TransformerKept begin(bool keep) const {
    TransformerKept kept;
    if (keep) {
      kept.attn_stats = reals({batch, g.heads, length, 2});
      kept.attn_norm_stats = reals({rows, 2});
      kept.norm_stats = reals({rows, 2});
    }
    if (g.pre_layer_norm || keeps_sums(keep)) kept.inp_norm = empty({rows, hidden});
    return kept;
  }

  /// Returns the results of the forward pass. Tensors that are not saved are empty.
  TransformerForward result(const Tensor& out, TransformerKept kept, bool keep) const {
    if (!keep) kept = TransformerKept();
    if (!keeps_sums(keep)) kept.add_res = Tensor();
    const auto or_empty = [&](const Tensor& tensor) {
      return tensor.defined() ? tensor : empty({0});
    };
    const auto or_no_reals = [&](const Tensor& tensor) {
      return tensor.defined() ? tensor : reals({0});
    };
    return {out,
            or_empty(kept.inp_norm),
            or_empty(kept.qkv),
            or_no_reals(kept.attn_stats),
            or_empty(kept.attn_out),
            or_empty(kept.add_res),
            or_empty(kept.ff1_inp),
            or_empty(kept.gelu_inp),
            or_empty(kept.ff2_inp),
            or_no_reals(kept.attn_norm_stats),
            or_no_reals(kept.norm_stats)};
  }

  const TransformerArguments& g;
  std::int64_t batch, length, hidden, inter, rows, head_dim;
  Tensor input, ob, nw, nb, inter_b, output_b, norm_w, norm_b;
  Dropout attn_drop, attn_out_drop, out_drop;
};

// The functions below return the kernel arguments for the norms: the first norm (only with
// pre_layer_norm), the norm after attention, and the last norm, which with pre_layer_norm is only a
// sum.

template <typename S>
AddNorm<S> norm_pass(const LayerArguments& layer) {
  AddNorm<S> out{};
  out.columns = layer.hidden;
  out.eps = static_cast<typename RealOf<S>::type>(layer.g.eps);
  return out;
}

template <typename S>
AddNorm<S> first_norm(const LayerArguments& layer, const TransformerKept& kept) {
  AddNorm<S> out = norm_pass<S>(layer);
  out.residual = read<S>(layer.input);
  out.out = write<S>(kept.inp_norm);
  out.weight = read<S>(layer.norm_w);
  out.shift = read<S>(layer.norm_b);
  out.stats = write<typename RealOf<S>::type>(kept.norm_stats);
  return out;
}

template <typename S>
AddNorm<S> middle_norm(const LayerArguments& layer, const TransformerKept& kept,
                       const Tensor& product) {
  AddNorm<S> out = norm_pass<S>(layer);
  out.product = read<S>(product);
  out.bias = read<S>(layer.ob);
  out.residual = read<S>(layer.input);
  out.sum = write<S>(kept.add_res);
  out.out = write<S>(kept.ff1_inp);
  out.weight = read<S>(layer.nw);
  out.shift = read<S>(layer.nb);
  out.stats = write<typename RealOf<S>::type>(kept.attn_norm_stats);
  out.dropout = layer.attn_out_drop;
  return out;
}

/// `product` and `to` may share memory.
template <typename S>
AddNorm<S> last_norm(const LayerArguments& layer, const TransformerKept& kept, bool keep,
                     const Tensor& product, const Tensor& to) {
  const bool pre = layer.g.pre_layer_norm;
  AddNorm<S> out = norm_pass<S>(layer);
  out.product = read<S>(product);
  out.bias = read<S>(layer.output_b);
  out.residual = read<S>(pre ? kept.add_res : kept.ff1_inp);
  out.sum = pre ? write<S>(to) : layer.keeps_sums(keep) ? write<S>(kept.inp_norm) : nullptr;
  out.out = pre ? nullptr : write<S>(to);
  out.weight = read<S>(layer.norm_w);
  out.shift = read<S>(layer.norm_b);
  out.stats = write<typename RealOf<S>::type>(kept.norm_stats);
  out.dropout = layer.out_drop;
  return out;
}

/// `grad_sum` is used only with a norm, and `dropped` only with dropout.
template <typename S>
NormGrad<S> last_norm_grad(const LayerArguments& layer, const TransformerKept& kept,
                           const Tensor& output, const Tensor& grad, const Tensor& grad_sum,
                           const Tensor& dropped) {
  NormGrad<S> out{};
  out.columns = layer.hidden;
  out.grad = read<S>(grad);
  out.grad_product = write<S>(dropped);
  out.dropout = layer.out_drop;
  if (layer.g.pre_layer_norm) return out;
  out.weight = read<S>(layer.norm_w);
  out.shift = read<S>(layer.norm_b);
  out.stats = read<typename RealOf<S>::type>(kept.norm_stats);
  (layer.g.normalize_invertible ? out.out : out.sum) =
      layer.g.normalize_invertible ? read<S>(output) : read<S>(kept.inp_norm);
  out.grad_sum = write<S>(grad_sum);
  return out;
}

/// `plus` is the output gradient. With pre_layer_norm, it bypasses the feed-forward block.
template <typename S>
NormGrad<S> middle_norm_grad(const LayerArguments& layer, const TransformerKept& kept,
                             const Tensor& grad, const Tensor& plus, const Tensor& grad_sum,
                             const Tensor& dropped) {
  NormGrad<S> out{};
  out.columns = layer.hidden;
  out.grad = read<S>(grad);
  out.weight = read<S>(layer.nw);
  out.shift = read<S>(layer.nb);
  out.stats = read<typename RealOf<S>::type>(kept.attn_norm_stats);
  (layer.g.normalize_invertible ? out.out : out.sum) =
      read<S>(layer.g.normalize_invertible ? kept.ff1_inp : kept.add_res);
  if (layer.g.pre_layer_norm) out.plus = read<S>(plus);
  out.grad_sum = write<S>(grad_sum);
  out.grad_product = write<S>(dropped);
  out.dropout = layer.attn_out_drop;
  return out;
}

template <typename S>
NormGrad<S> first_norm_grad(const LayerArguments& layer, const TransformerKept& kept,
                            const Tensor& grad, const Tensor& plus, const Tensor& grad_sum) {
  NormGrad<S> out{};
  out.columns = layer.hidden;
  out.grad = read<S>(grad);
  out.weight = read<S>(layer.norm_w);
  out.shift = read<S>(layer.norm_b);
  out.stats = read<typename RealOf<S>::type>(kept.norm_stats);
  (layer.g.normalize_invertible ? out.out : out.sum) =
      read<S>(layer.g.normalize_invertible ? kept.inp_norm : layer.input);
  out.plus = read<S>(plus);
  out.grad_sum = write<S>(grad_sum);
  return out;
}

/// Computes product = a * b, or product += a * b with `add`.
inline void multiply(const Tensor& product, const Tensor& a, const Tensor& b, bool add = false) {
  Tensor out = product;
  if (add)
    at::addmm_out(out, out, a, b);
  else
    at::mm_out(out, a, b);
}

/// Calls function(S{}) for the input's element type S.
template <typename Function>
auto for_type(const TransformerArguments& arguments, const Function& function) {
  switch (arguments.input.scalar_type()) {
    case at::kDouble: return function(double{});
    case at::kBFloat16: return function(Bf16{});
    case at::kHalf: return function(Fp16{});
    default: return function(float{});
  }
}

}  // namespace
}  // namespace anyaccel::ops
