#include "llm/model/layers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "llm/model/activation.h"
#include "llm/model/experts.h"
#include "llm/model/functions.h"

namespace anyaccel::llm {

namespace {

std::optional<at::Tensor> maybe(const at::Tensor& bias) {
  return bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
}

/// Attention with soft-capped scores, for which torch has no kernel. Without `mask`, all positions
/// are visible.
at::Tensor capped_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const std::optional<at::Tensor>& mask, double scale, double cap) {
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
  const at::Tensor shares = at::softmax(scores, -1, c10::kFloat).to(query.scalar_type());
  return at::matmul(shares, repeated(value));
}

/// Normalizes each query head and each key head.
at::Tensor normalize_heads(const LayerWeights& layer, const ModelConfig& config,
                           const at::Tensor& qkv) {
  const std::int64_t heads = config.num_heads;
  const std::int64_t kv_heads = config.num_kv_heads;
  const at::Tensor in = qkv.view({qkv.size(0), qkv.size(1), heads + 2 * kv_heads, config.head_dim});
  return at::cat({norm(in.narrow(2, 0, heads), layer.query_norm, config),
                  norm(in.narrow(2, heads, kv_heads), layer.key_norm, config),
                  in.narrow(2, heads + kv_heads, kv_heads)},
                 2)
      .view(qkv.sizes());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> split_heads(const at::Tensor& qkv,
                                                           const ModelConfig& config) {
  const std::int64_t heads = config.num_heads;
  const std::int64_t kv_heads = config.num_kv_heads;
  const at::Tensor all =
      qkv.view({qkv.size(0), qkv.size(1), heads + 2 * kv_heads, config.head_dim}).transpose(1, 2);
  return {all.narrow(1, 0, heads), all.narrow(1, heads, kv_heads),
          all.narrow(1, heads + kv_heads, kv_heads)};
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
               std::int64_t index) {
  if (config.attention_softcap > 0)
    return capped_attention(query, key, value, mask, config.attention_scale,
                            config.attention_softcap);
  return at::scaled_dot_product_attention(query, key, value, mask, 0.0, causal,
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
                  at::Tensor value, std::int64_t index, BatchSequence& part) {
  const std::int64_t window =
      config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(index)];
  if (part.next) {
    const auto [keys, values, mask] = part.next->append(*part.cache, index, key, value, window);
    // Fold the heads that share a key into rows, so that kernels with a mask need not repeat the
    // keys.
    const at::Tensor rows = query.reshape({1, config.num_kv_heads, -1, config.head_dim});
    return mix(config, rows, keys, values, mask, /*causal=*/false, index).reshape(query.sizes());
  }
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
             /*causal=*/!mask && query.size(2) > 1, index);
}

}  // namespace

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config,
                const at::Tensor& bias) {
  if (config.layer_norm)
    return at::layer_norm(x, {x.size(-1)}, maybe(weight), maybe(bias), config.rms_norm_eps);
  if (!config.norm_plus_one) return rms_norm(x, weight, config.rms_norm_eps);
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
                     std::vector<BatchSequence>& parts) {
  at::Tensor qkv = layer.qkv.defined() ? linear(x, layer.qkv, layer.qkv_scales, layer.qkv_bias)
                                       : linear(x, layer.qkv_parts, layer.qkv_bias);
  if (config.query_key_norm) qkv = normalize_heads(layer, config, qkv);
  const auto [query, key, value] =
      config.learned_positions ? split_heads(qkv, config)
                               : rotary_split(qkv, cos, sin, config.num_heads, config.num_kv_heads);
  std::vector<at::Tensor> mixed;
  for (BatchSequence& part : parts) {
    const auto own = [&](const at::Tensor& all) {
      return parts.size() == 1 ? all : all.narrow(2, part.begin, part.time);
    };
    mixed.push_back(attend(config, own(query), own(key), own(value), index, part));
  }
  const at::Tensor rows = joined(mixed, 2).transpose(1, 2).reshape(
      {x.size(0), x.size(1), config.num_heads * config.head_dim});
  return linear(rows, layer.output, layer.output_scales, layer.output_bias);
}

at::Tensor feed_forward(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x) {
  if (layer.router.defined()) return run_experts(layer, config, x);
  const at::Tensor gate_up =
      layer.gate_up.defined() ? linear(x, layer.gate_up, layer.gate_up_scales, layer.gate_up_bias)
                              : linear(x, layer.gate_up_parts, layer.gate_up_bias);
  const at::Tensor inner = config.gated ? activate_gate(gate_up, config.activation)
                                        : activate(gate_up, config.activation);
  return linear(inner, layer.down, layer.down_scales, layer.down_bias);
}

}  // namespace anyaccel::llm
