#include "llm/model/layers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "anyaccel/ops/training.h"
#include "llm/model/activation.h"
#include "llm/model/experts.h"
#include "llm/model/functions.h"
#include "llm/parallel/shards.h"

namespace anyaccel::llm {

namespace {

std::optional<at::Tensor> maybe(const at::Tensor& bias) {
  return bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
}

/// Attention with soft-capped scores, for which torch has no kernel. Without `mask`, all positions
/// are visible.
at::Tensor capped_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const std::optional<at::Tensor>& mask, double scale, double cap,
                            double dropout) {
  const std::int64_t groups = query.size(1) / key.size(1);
  const auto repeated = [&](const at::Tensor& in) {
    return groups == 1 ? in : in.repeat_interleave(groups, 1);
  };
  at::Tensor scores = soft_cap(at::matmul(query, repeated(key).transpose(2, 3)).mul(scale), cap);
  if (mask && mask->scalar_type() != c10::kBool) {
    scores = scores.add(*mask);
  } else if (mask) {
    scores = scores.masked_fill(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  at::Tensor shares = at::softmax(scores, -1, c10::kFloat).to(query.scalar_type());
  if (dropout > 0) shares = at::dropout(shares, dropout, /*train=*/true);
  return at::matmul(shares, repeated(value));
}

/// Normalizes each query head and each key head.
at::Tensor normalize_heads(const LayerWeights& layer, const ModelConfig& config,
                           const at::Tensor& qkv) {
  const std::int64_t heads = config.num_heads;
  const std::int64_t kv_heads = config.num_kv_heads;
  // Split instead of narrowing: the backward pass of three narrow() calls adds three tensors.
  const auto in = qkv.view({qkv.size(0), qkv.size(1), heads + 2 * kv_heads, config.head_dim})
                      .split_with_sizes({heads, kv_heads, kv_heads}, 2);
  return at::cat(
             {norm(in[0], layer.query_norm, config), norm(in[1], layer.key_norm, config), in[2]}, 2)
      .view(qkv.sizes());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> split_heads(const at::Tensor& qkv,
                                                           const ModelConfig& config) {
  const std::int64_t heads = config.num_heads;
  const std::int64_t kv_heads = config.num_kv_heads;
  const auto all = qkv.view({qkv.size(0), qkv.size(1), heads + 2 * kv_heads, config.head_dim})
                       .transpose(1, 2)
                       .split_with_sizes({heads, kv_heads, kv_heads}, 1);
  return {all[0], all[1], all[2]};
}

/// Scale of the layer's attention scores; nullopt for torch's default.
std::optional<double> score_scale(const ModelConfig& config, std::int64_t index) {
  if (config.attention_scale <= 0 && !config.scale_by_layer) return std::nullopt;
  const double scale = config.attention_scale > 0
                           ? config.attention_scale
                           : 1 / std::sqrt(static_cast<double>(config.head_dim));
  return config.scale_by_layer ? scale / static_cast<double>(index + 1) : scale;
}

/// Attention over the visible positions. `mask`: bool, true for visible positions, or a float
/// tensor to add to the scores. Without a mask, all positions are visible unless `causal` is set.
at::Tensor mix(const ModelConfig& config, const at::Tensor& query, const at::Tensor& key,
               const at::Tensor& value, const std::optional<at::Tensor>& mask, bool causal,
               std::int64_t index, double dropout = 0) {
  if (config.attention_softcap > 0)
    return capped_attention(query, key, value, mask, config.attention_scale,
                            config.attention_softcap, dropout);
  return at::scaled_dot_product_attention(query, key, value, mask, dropout, causal,
                                          score_scale(config, index),
                                          /*enable_gqa=*/query.size(1) != key.size(1));
}

/// Repeats keys or values for each query head if a rank's query heads are not divided evenly among
/// the key heads.
at::Tensor for_heads(const ModelConfig& config, const at::Tensor& shared) {
  if (config.head_group == 0) return shared;
  const at::Tensor heads = at::arange(config.first_head, config.first_head + config.num_heads,
                                      shared.options().dtype(c10::kLong));
  return shared.index_select(1, heads.floor_divide(config.head_group));
}

/// Attention output for one sequence's new tokens, [batch, heads, time, head_dim].
at::Tensor attend(const ModelConfig& config, const at::Tensor& query, at::Tensor key,
                  at::Tensor value, std::int64_t index, BatchSequence& part, double dropout) {
  const std::int64_t window =
      config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(index)];
  if (part.next) {
    const auto [keys, values, mask] = part.next->append(*part.cache, index, key, value, window);
    // Fold the heads that share a key into rows, so that kernels with a mask need not repeat the
    // keys.
    const at::Tensor rows = query.reshape({1, config.num_kv_heads, -1, config.head_dim});
    return mix(config, rows, keys, values, mask, /*causal=*/false, index).reshape(query.sizes());
  }
  if (!part.cache && config.attention_softcap <= 0 && dropout <= 0 && config.head_group == 0 &&
      config.head_dim % 16 == 0 && trains_by_op(query))
    return ops::causal_attention(query, key, value,
                                 {.scale = score_scale(config, index), .window = window});
  if (part.cache) std::tie(key, value) = part.cache->append(index, key, value);
  if (window > 0 && query.size(2) == 1 && key.size(2) > window) {
    key = key.narrow(2, key.size(2) - window, window);
    value = value.narrow(2, value.size(2) - window, window);
  }
  const std::optional<at::Tensor> mask =
      part.masks.of(window, /*always=*/config.attention_softcap > 0);
  // A single token attends to all remaining positions, an empty cache needs only the causal mask,
  // and other cases use `mask`.
  return mix(config, query, for_heads(config, key), for_heads(config, value), mask,
             /*causal=*/!mask && query.size(2) > 1, index, dropout);
}

/// Adds the adapters' outputs to `out`. As in PEFT, computes in the adapters' dtype and returns
/// the dtype of `out`.
at::Tensor add_adapters(const at::Tensor& out, const at::Tensor& x,
                        const std::vector<Adapter>& adapters, double dropout) {
  if (adapters.empty()) return out;
  const at::Tensor in = x.to(adapters.front().a.scalar_type());
  std::vector<at::Tensor> changes;
  std::vector<std::int64_t> shape = x.sizes().vec();
  std::int64_t end = 0;
  const auto skip_to = [&](std::int64_t row) {
    shape.back() = row - end;
    if (row > end) changes.push_back(at::zeros(shape, in.options().requires_grad(false)));
    end = row;
  };
  for (const Adapter& adapter : adapters) {
    skip_to(adapter.begin);
    const at::Tensor dropped = dropout > 0 ? at::dropout(in, dropout, /*train=*/true) : in;
    changes.push_back(at::linear(at::linear(dropped, adapter.a).mul(adapter.scale), adapter.b));
    end += adapter.rows;
  }
  skip_to(out.size(-1));
  return out.add(joined(changes, -1)).to(out.scalar_type());
}

/// A matrix product with bias and adapters. Uses `parts` if the fused matrix is undefined.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight,
                   const std::vector<at::Tensor>& parts, const Scales& scales,
                   const at::Tensor& bias, const LayerWeights& layer,
                   std::vector<Adapter> LayerAdapters::*adapters, const LayerDropout& dropout) {
  const at::Tensor out =
      weight.defined() ? linear(x, weight, scales, bias) : linear(x, parts, bias);
  return layer.adapters ? add_adapters(out, x, (*layer.adapters).*adapters, dropout.adapter) : out;
}

}  // namespace

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config,
                const at::Tensor& bias) {
  if (config.layer_norm)
    return at::layer_norm(x, {x.size(-1)}, maybe(weight), maybe(bias), config.rms_norm_eps);
  if (!config.norm_plus_one) return rms_norm(x, weight, config.rms_norm_eps);
  if (x.scalar_type() == weight.scalar_type() && trains_by_op(x))
    return ops::rms_norm(x, weight, config.rms_norm_eps, /*plus_one=*/true);
  return rms_norm(x.to(c10::kFloat), weight.to(c10::kFloat).add(1.0), config.rms_norm_eps)
      .to(x.scalar_type());
}

at::Tensor soft_cap(const at::Tensor& x, double cap) {
  return cap > 0 ? x.div(cap).tanh().mul(cap) : x;
}

at::Tensor joined(const std::vector<at::Tensor>& rows, std::int64_t axis) {
  return rows.size() == 1 ? rows[0] : at::cat(rows, axis);
}

at::Tensor attention(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x,
                     const at::Tensor& cos, const at::Tensor& sin, std::int64_t index,
                     std::vector<BatchSequence>& parts, const LayerDropout& dropout) {
  at::Tensor qkv = project(x, layer.qkv, layer.qkv_parts, layer.qkv_scales, layer.qkv_bias, layer,
                           &LayerAdapters::qkv, dropout);
  if (config.query_key_norm) qkv = normalize_heads(layer, config, qkv);
  const auto [query, key, value] =
      config.learned_positions ? split_heads(qkv, config)
                               : rotary_split(qkv, cos, sin, config.num_heads, config.num_kv_heads);
  std::vector<std::int64_t> times;
  for (const BatchSequence& part : parts) times.push_back(part.time);
  const auto split = [&](const at::Tensor& all) {
    return parts.size() == 1 ? std::vector{all} : all.split_with_sizes(times, 2);
  };
  const auto queries = split(query), keys = split(key), values = split(value);
  std::vector<at::Tensor> mixed;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    mixed.push_back(
        attend(config, queries[i], keys[i], values[i], index, parts[i], dropout.attention));
  }
  const at::Tensor rows = joined(mixed, 2).transpose(1, 2).reshape(
      {x.size(0), x.size(1), config.num_heads * config.head_dim});
  return project(rows, layer.output, {}, layer.output_scales, layer.output_bias, layer,
                 &LayerAdapters::output, dropout);
}

at::Tensor feed_forward(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x,
                        const LayerDropout& dropout) {
  if (layer.router.defined()) return run_experts(layer, config, x);
  const at::Tensor gate_up = project(x, layer.gate_up, layer.gate_up_parts, layer.gate_up_scales,
                                     layer.gate_up_bias, layer, &LayerAdapters::gate_up, dropout);
  // Saves only the activation's input.
  if (config.gated && !layer.down_scales.scales.defined() &&
      (!layer.adapters || layer.adapters->down.empty()) && trains_by_op(gate_up))
    return ops::gated_linear(gate_up,
                             static_cast<ops::GateActivation>(op_activation(config.activation)),
                             layer.down, layer.down_bias);
  const at::Tensor inner = config.gated ? activate_gate(gate_up, config.activation)
                                        : activate(gate_up, config.activation);
  return project(inner, layer.down, {}, layer.down_scales, layer.down_bias, layer,
                 &LayerAdapters::down, dropout);
}

at::Tensor decoder_layer(const LayerWeights& layer, const ModelConfig& config, at::Tensor x,
                         const Rotation& rotation, std::int64_t index,
                         std::vector<BatchSequence>& parts, Shards* shards,
                         const LayerDropout& dropout) {
  const auto input_norm = [&](const at::Tensor& in) {
    return norm(in, layer.input_norm, config, layer.input_norm_bias);
  };
  const auto post_norm = [&](const at::Tensor& in) {
    return norm(in, layer.post_norm, config, layer.post_norm_bias);
  };
  const auto drop = [&](const at::Tensor& change, const at::Tensor& mask) {
    if (mask.defined()) return change.mul(mask);
    return dropout.residual > 0 ? at::dropout(change, dropout.residual, /*train=*/true) : change;
  };
  at::Tensor change = attention(layer, config, config.norms_before ? input_norm(x) : x,
                                rotation.first, rotation.second, index, parts, dropout);
  if (shards) change = shards->after_attention(change);
  if (config.norms_after) change = norm(change, layer.after_attention, config);
  x = x.add(drop(change, dropout.after_attention));
  if (!config.norms_before) x = input_norm(x);
  change = feed_forward(layer, config, config.norms_before ? post_norm(x) : x, dropout);
  if (shards) change = shards->after_feed_forward(change);
  if (config.norms_after) change = norm(change, layer.after_feed_forward, config);
  x = x.add(drop(change, dropout.after_feed_forward));
  return config.norms_before ? x : post_norm(x);
}

at::Tensor embed_tokens(const Weights& weights, const ModelConfig& config, const at::Tensor& ids,
                        std::int64_t padding) {
  at::Tensor x = weights.shards ? weights.shards->embed(weights.embedding, ids)
                                : at::embedding(weights.embedding, ids, padding);
  // Multiply by a tensor, which rounds the factor to the model's dtype as in transformers.
  if (config.embedding_scale != 1.0) x = x.mul(at::full({}, config.embedding_scale, x.options()));
  return weights.project_in.defined() ? at::linear(x, weights.project_in) : x;
}

at::Tensor head_input(const Weights& weights, const ModelConfig& config, const at::Tensor& x) {
  const at::Tensor out = config.final_norm ? norm(x, weights.norm, config, weights.norm_bias) : x;
  return weights.project_out.defined() ? at::linear(out, weights.project_out) : out;
}

}  // namespace anyaccel::llm
