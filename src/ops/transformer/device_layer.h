// The transformer layer on device memory. torch computes the large matrix products, and the
// remaining steps are kernels from kernels/transformer/device_rows.h and kernels/attention.
// Included by schema_cuda.h, and by a test that runs the launches on the host.
//
// The steps, the saved tensors and the null tensors are the same as in forward.cpp and
// backward.cpp. Temporary tensors are freed before the kernels have run. This is safe, because
// torch's allocator reuses their memory only for later work on the same stream.
#pragma once

#include "kernels/transformer/device_rows.h"
#include "ops/shared/attention_tensors.h"
#include "ops/transformer/passes.h"

namespace anyaccel::ops {
namespace {

/// The layer's arguments in the form that device kernels take.
template <typename S>
struct DeviceLayer : LayerArguments {
  using Real = typename RealOf<S>::type;
  static constexpr const char* where = "transformer_layer";

  DeviceLayer(const TransformerArguments& arguments, void* on)
      : LayerArguments(arguments), stream(on) {}

  /// Returns the query, key or value of [rows, 3 * hidden] as [batch, heads, length, head_dim].
  Tensor heads_of(const Tensor& qkv, std::int64_t which) const {
    return qkv.view({batch, length, 3, g.heads, head_dim}).select(2, which).transpose(1, 2);
  }
  /// Returns [rows, hidden] as [batch, heads, length, head_dim].
  Tensor heads_of(const Tensor& all) const {
    return all.view({batch, length, g.heads, head_dim}).transpose(1, 2);
  }

  /// Sets the inputs that the forward and backward passes of attention share.
  void give(AttentionTensors<Real>& tensors, const Tensor& qkv) const {
    auto& launch = tensors.launch;
    launch.q = tensors.reads(heads_of(qkv, 0));
    launch.k = tensors.reads(heads_of(qkv, 1));
    launch.v = tensors.reads(heads_of(qkv, 2));
    launch.scale = static_cast<Real>(attention_scale());
    launch.dropout = attn_drop;
    if (g.has_mask())
      launch.bias[0] =
          tensors.added(*g.attention_mask, g.attention_mask->scalar_type() == at::kBool);
  }
  AttentionTensors<Real> attention() const {
    return {batch, g.heads, length, head_dim, g.input.scalar_type()};
  }

  void add_norm(const AddNorm<S>& pass) const {
    check_launch(where, device_add_norm(pass, rows, stream));
  }

  /// Returns the gradients of a norm's weight and shift, and of the bias before the norm. If there
  /// is no norm, only the last one is set.
  std::array<Tensor, 3> norm_grad(const NormGrad<S>& pass) const {
    const Tensor parts = reals({norm_parts(rows).count, 3, hidden});
    check_launch(where, device_norm_grad(pass, rows, write<Real>(parts), stream));
    std::array<Tensor, 3> out;
    PartSums<S> sums{parts.size(0), hidden, 3, read<Real>(parts), {}};
    for (std::size_t i = pass.weight ? 0 : 2; i < 3; ++i) {
      out[i] = empty({hidden});
      sums.to[i] = write<S>(out[i]);
    }
    check_launch(where, device_sum_parts(sums, stream));
    return out;
  }

  /// Returns column sums. launch(parts) must compute the partial sums.
  template <typename Launch>
  Tensor column_sums(std::int64_t columns, const Launch& launch) const {
    const Tensor parts = reals({column_parts(rows).count, columns});
    Tensor out = empty({columns});
    check_launch(where, launch(write<Real>(parts)));
    check_launch(
        where,
        device_sum_parts(PartSums<S>{parts.size(0), columns, 1, read<Real>(parts), {write<S>(out)}},
                         stream));
    return out;
  }

  void* stream;
};

template <typename S>
TransformerForward device_forward_as(const TransformerArguments& g, bool keep, void* stream) {
  using Real = typename RealOf<S>::type;
  const DeviceLayer<S> layer(g, stream);
  const std::int64_t rows = layer.rows, hidden = layer.hidden, inter = layer.inter;
  const bool pre = g.pre_layer_norm;
  const Tensor out = layer.empty({layer.batch, layer.length, hidden});
  TransformerKept kept = layer.begin(keep);
  if (pre) layer.add_norm(first_norm<S>(layer, kept));
  const Tensor normal = pre ? kept.inp_norm : layer.input;

  kept.qkv = layer.empty({rows, 3 * hidden});
  Tensor qkv = kept.qkv;
  at::addmm_out(qkv, g.attn_qkvb, normal, g.attn_qkvw.t());
  kept.attn_out = layer.empty({rows, hidden});
  auto attention = layer.attention();
  layer.give(attention, kept.qkv);
  attention.launch.out = attention.writes(layer.heads_of(kept.attn_out));
  attention.launch.stats = write<Real>(kept.attn_stats);
  attention.forward(layer.where, stream);

  // Use the output as scratch space for matrix products until the result is written.
  const Tensor product = out.view({rows, hidden});
  multiply(product, kept.attn_out, g.attn_ow.t());
  kept.ff1_inp = layer.empty({rows, hidden});
  if (pre || layer.keeps_sums(keep)) kept.add_res = layer.empty({rows, hidden});
  layer.add_norm(middle_norm<S>(layer, kept, product));

  kept.gelu_inp = layer.empty({rows, inter});
  if (keep && !g.gelu_checkpoint) kept.ff2_inp = layer.empty({rows, inter});
  // Without gradients, the activation overwrites its input.
  const Tensor after = kept.ff2_inp.defined() ? kept.ff2_inp
                       : keep                 ? layer.empty({rows, inter})
                                              : kept.gelu_inp;
  multiply(kept.gelu_inp, kept.ff1_inp, g.inter_w.t());
  const Gelu<S> activation{inter, read<S>(kept.gelu_inp), read<S>(layer.inter_b), write<S>(after),
                           g.tanh()};
  check_launch(layer.where, device_gelu(activation, rows, stream));
  multiply(product, after, g.output_w.t());
  layer.add_norm(last_norm<S>(layer, kept, keep, product, out));
  return layer.result(out, kept, keep);
}

/// Returns the gradients of query, key and value in the memory layout of qkv.
template <typename S>
Tensor device_attention_grad(const DeviceLayer<S>& layer, const TransformerKept& kept,
                             const Tensor& grad_out) {
  using Real = typename RealOf<S>::type;
  Tensor grad_qkv = layer.empty({layer.rows, 3 * layer.hidden});
  const Tensor delta = layer.reals({layer.batch, layer.g.heads, layer.length});
  auto attention = layer.attention();
  auto& launch = attention.launch;
  layer.give(attention, kept.qkv);
  launch.grad = attention.reads(layer.heads_of(grad_out));
  launch.out = attention.writes(layer.heads_of(kept.attn_out));
  // The kernels do not write to `out` and `stats`.
  launch.stats = const_cast<Real*>(read<Real>(kept.attn_stats));
  launch.delta = write<Real>(delta);
  launch.dq = attention.writes(layer.heads_of(grad_qkv, 0));
  launch.dk = attention.writes(layer.heads_of(grad_qkv, 1));
  launch.dv = attention.writes(layer.heads_of(grad_qkv, 2));
  attention.backward(layer.where, layer.stream);
  return grad_qkv;
}

template <typename S>
TransformerBackward device_backward_as(const TransformerArguments& g, const Tensor& grad_output,
                                       const Tensor& output, const TransformerKept& kept,
                                       void* stream) {
  using Real = typename RealOf<S>::type;
  const DeviceLayer<S> layer(g, stream);
  const std::int64_t rows = layer.rows, hidden = layer.hidden, inter = layer.inter;
  const bool pre = g.pre_layer_norm, drops = layer.out_drop.threshold != 0;
  const Tensor grad_out = grad_output.contiguous().view({rows, hidden});
  const auto grad_of = [&](const Tensor& weight, const Tensor& grad, const Tensor& from) {
    Tensor out = layer.empty(weight.sizes());
    multiply(out, grad.t(), from);
    return out;
  };

  // Gradients of the sum before the last norm (with pre_layer_norm: of the output itself), and of
  // the second matrix product in the feed-forward part.
  const Tensor grad_sum = pre ? Tensor() : layer.empty({rows, hidden});
  const Tensor dropped = drops ? layer.empty({rows, hidden}) : Tensor();
  const auto last_sums =
      layer.norm_grad(last_norm_grad<S>(layer, kept, output, grad_out, grad_sum, dropped));
  const Tensor grad_ff2 = drops ? dropped : pre ? grad_out : grad_sum;

  const Tensor grad_inter = layer.empty({rows, inter});
  const Gelu<S> activation{inter, read<S>(kept.gelu_inp), read<S>(layer.inter_b),
                           write<S>(grad_inter), g.tanh()};
  if (g.gelu_checkpoint) check_launch(layer.where, device_gelu(activation, rows, stream));
  const Tensor grad_output_w =
      grad_of(g.output_w, grad_ff2, g.gelu_checkpoint ? grad_inter : kept.ff2_inp);
  multiply(grad_inter, grad_ff2, g.output_w);
  const Tensor grad_inter_b = layer.column_sums(inter, [&](Real* parts) {
    return device_gelu_grad(activation, write<S>(grad_inter), rows, parts, stream);
  });
  const Tensor grad_inter_w = grad_of(g.inter_w, grad_inter, kept.ff1_inp);
  const Tensor grad_ff1 = pre ? layer.empty({rows, hidden}) : grad_sum;
  multiply(grad_ff1, grad_inter, g.inter_w, !pre);

  // Gradients of the sum before the norm after attention, and of the matrix product with the
  // attention output weight.
  const Tensor grad_residual = layer.empty({layer.batch, layer.length, hidden});
  const auto middle_sums =
      layer.norm_grad(middle_norm_grad<S>(layer, kept, grad_ff1, grad_out, grad_residual, dropped));
  const Tensor residual_rows = grad_residual.view({rows, hidden});
  const Tensor grad_projected = drops ? dropped : residual_rows;

  const Tensor grad_ow = grad_of(g.attn_ow, grad_projected, kept.attn_out);
  const Tensor grad_attention = pre ? grad_ff1 : layer.empty({rows, hidden});
  multiply(grad_attention, grad_projected, g.attn_ow);
  const Tensor grad_qkv = device_attention_grad(layer, kept, grad_attention);
  const Tensor grad_qkvb = layer.column_sums(3 * hidden, [&](Real* parts) {
    return device_column_sums(read<S>(grad_qkv), 3 * hidden, rows, parts, stream);
  });
  const Tensor grad_qkvw = grad_of(g.attn_qkvw, grad_qkv, pre ? kept.inp_norm : layer.input);

  Tensor grad_input = grad_residual;
  auto norm_sums = last_sums;
  if (pre) {
    multiply(grad_attention, grad_qkv, g.attn_qkvw);
    grad_input = layer.empty({layer.batch, layer.length, hidden});
    norm_sums =
        layer.norm_grad(first_norm_grad<S>(layer, kept, grad_attention, residual_rows, grad_input));
  } else {
    multiply(residual_rows, grad_qkv, g.attn_qkvw, true);
  }
  return {grad_input,     grad_qkvw,      grad_qkvb,    grad_ow,      middle_sums[2],
          middle_sums[0], middle_sums[1], grad_inter_w, grad_inter_b, grad_output_w,
          last_sums[2],   norm_sums[0],   norm_sums[1]};
}

TransformerForward device_transformer_forward(const TransformerArguments& g, bool keep,
                                              void* stream) {
  return for_type(
      g, [&](auto element) { return device_forward_as<decltype(element)>(g, keep, stream); });
}

TransformerBackward device_transformer_backward(const TransformerArguments& g,
                                                const Tensor& grad_out, const Tensor& output,
                                                const TransformerKept& kept, void* stream) {
  return for_type(g, [&](auto element) {
    return device_backward_as<decltype(element)>(g, grad_out, output, kept, stream);
  });
}

}  // namespace
}  // namespace anyaccel::ops
