#include "llm/model/decode_step.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>

#include "anyaccel/accelerator.h"
#include "anyaccel/ops/call.h"
#include "base/log.h"
#include "llm/model/activation.h"
#include "llm/model/llama.h"
#include "llm/parallel/shards.h"

namespace anyaccel::llm {

namespace {

constexpr int behind_layers = 6;  // number of slots for the final norm and the head
constexpr const char* op_builder = "DecoderInferenceBuilder";
using Decode = void(const at::Tensor&, const c10::List<std::optional<at::Tensor>>&, at::TensorList,
                    at::TensorList, at::TensorList, at::IntArrayRef, at::IntArrayRef,
                    at::IntArrayRef, const std::optional<at::Tensor>&,
                    const std::optional<at::Tensor>&, const std::string&);

const c10::TypedOperatorHandle<Decode>& decode_op() {
  static const auto op = ops::load_op<Decode>(op_builder, "inference_decode");
  return op;
}

/// Returns whether a layer has LoRA adapters, which the op does not compute.
bool adapted(const Weights& weights) {
  return std::any_of(weights.layers.begin(), weights.layers.end(),
                     [](const LayerWeights& layer) { return layer.adapters != nullptr; });
}

bool known(const ModelConfig& config) {
  const bool experts = !config.expert_layers.empty();
  const bool known_experts = config.gated && config.expert_size > 0;
  return config.norms_before && (!experts || known_experts) &&
         config.head_dim <= ops::max_decode_head_dim;
}

ops::DecoderConfig op_config(const ModelConfig& config) {
  using Norm = ops::DecoderConfig::Norm;
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  ops::DecoderConfig out;
  out.num_heads = narrow(config.num_heads);
  out.num_kv_heads = narrow(config.num_kv_heads);
  out.head_dim = narrow(config.head_dim);
  if (config.head_group > 0) {
    out.heads_per_kv_head = narrow(config.head_group);
    out.first_head = narrow(config.first_head);
  }
  out.experts_per_token = config.expert_layers.empty() ? 0 : narrow(config.experts_per_token);
  out.norm = config.layer_norm      ? Norm::layer
             : config.norm_plus_one ? Norm::rms_plus_one
                                    : Norm::rms;
  out.activation = static_cast<ops::DecoderConfig::Activation>(op_activation(config.activation));
  out.gated = config.gated;
  out.norms_after = config.norms_after;
  out.final_norm = config.final_norm;
  out.normalize_experts = config.normalize_experts;
  out.norm_eps = config.rms_norm_eps;
  out.attention_softcap = config.attention_softcap;
  return out;
}

class Slots {
 public:
  explicit Slots(c10::List<std::optional<at::Tensor>>& list) : list_(list) {}

  Slots& add(const at::Tensor& tensor) {
    list_.push_back(tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt);
    return *this;
  }
  Slots& none(int count) {
    for (int i = 0; i < count; ++i) list_.push_back(std::nullopt);
    return *this;
  }
  /// Adds weight, scales, zeros and bias.
  Slots& linear(const at::Tensor& weight, const Scales& scales, const at::Tensor& bias) {
    return add(weight).add(scales.scales).add(scales.zeros).add(bias);
  }
  /// Adds separate parts of a matrix that share one bias.
  void parts(const std::vector<at::Tensor>& parts, const at::Tensor& bias) {
    std::int64_t begin = 0;
    for (const at::Tensor& part : parts) {
      linear(part, {}, bias.defined() ? bias.narrow(0, begin, part.size(0)) : bias);
      begin += part.size(0);
    }
  }

 private:
  c10::List<std::optional<at::Tensor>>& list_;
};

}  // namespace

const DecodeStep* DecodeStep::of(const Weights& weights, const ModelConfig& config) {
  Weights::Step& slot = *weights.step;
  if (slot.asked) return slot.step.get();
  slot.asked = true;
  try {
    slot.step = make(weights, config);
  } catch (const Error& error) {
    log(LogLevel::warning,
        std::string("generation is slower without the op inference_decode: ") + error.what());
  }
  return slot.step.get();
}

std::unique_ptr<DecodeStep> DecodeStep::make(const Weights& weights, const ModelConfig& config) {
  const at::Tensor& first = weights.embedding;
  const auto type = first.scalar_type();
  if (!known(config) || weights.project_out.defined() || weights.layers.empty() || adapted(weights))
    return nullptr;
  if (type != c10::kFloat && type != c10::kBFloat16 && type != c10::kHalf) return nullptr;
  if (!ops::has_op(op_builder) || !ops::has_kernel(decode_op(), first)) return nullptr;
  // A call for half a layer does not include the norms after the sum, so models with such norms
  // need an op that all-reduces internally.
  if (weights.shards && config.norms_after &&
      (!first.is_cpu() || weights.shards->sums().first.empty()))
    return nullptr;
  std::unique_ptr<DecodeStep> step(new DecodeStep);
  const auto add_layer = [](List& list, const LayerWeights& layer) {
    Slots slots(list);
    slots.add(layer.input_norm).add(layer.input_norm_bias);
    if (layer.qkv.defined())
      slots.linear(layer.qkv, layer.qkv_scales, layer.qkv_bias).none(2 * 4);
    else
      slots.parts(layer.qkv_parts, layer.qkv_bias);
    slots.add(layer.query_norm).none(1).add(layer.key_norm).none(1);
    slots.linear(layer.output, layer.output_scales, layer.output_bias);
    slots.add(layer.after_attention).none(1);
    slots.add(layer.post_norm).add(layer.post_norm_bias);
    if (layer.router.defined())
      slots.none(2 * 4);
    else if (layer.gate_up.defined())
      slots.linear(layer.gate_up, layer.gate_up_scales, layer.gate_up_bias).none(4);
    else
      slots.parts(layer.gate_up_parts, layer.gate_up_bias);
    slots.linear(layer.down, layer.down_scales, layer.down_bias);
    slots.add(layer.after_feed_forward).none(1);
    slots.add(layer.router).add(layer.expert_gate_up).add(layer.expert_down);
  };
  for (const LayerWeights& layer : weights.layers) {
    add_layer(step->weights_, layer);
    if (!weights.shards) continue;
    add_layer(step->layers_.emplace_back(), layer);
    Slots(step->layers_.back()).none(behind_layers);
  }
  for (List* last : {&step->weights_, &step->last_})
    Slots(*last)
        .add(weights.norm)
        .add(weights.norm_bias)
        .linear(weights.head, weights.head_scales, {});
  step->config_ = op_config(config);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const double scale = config.attention_scale > 0
                             ? config.attention_scale
                             : 1 / std::sqrt(static_cast<double>(config.head_dim));
    step->layer_configs_.push_back(
        {.attention_scale = config.scale_by_layer ? scale / static_cast<double>(i + 1) : scale,
         .window = config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(i)]});
  }
  step->packed_ = ops::pack_decoder_config(step->config_, step->layer_configs_);
  step->outputs_ = weights.head.size(0);
  const auto rows =
      ops::load_op<std::int64_t(c10::ScalarType)>(op_builder, "inference_decode_rows").call(type);
  // CPU only: on other devices, torch's matrix products with many rows also read each weight only
  // once.
  step->prompt_rows_ = first.is_cpu() && rows > max_rows && config.num_experts == 0 ? rows : 0;
  step->rotates_ = !config.learned_positions;
  step->window_angles_ =
      step->rotates_ && std::any_of(config.windows.begin(), config.windows.end(),
                                    [](std::int64_t window) { return window > 0; });
  return step;
}

namespace {

/// Op arguments that describe the sequences in a pass, and the embeddings of their new tokens,
/// which the op overwrites.
struct Rows {
  at::Tensor x;
  std::vector<std::int64_t> past, rows;

  Rows(const at::Tensor& embedded, const std::vector<Segment>& segments)
      : x(embedded.to(c10::kFloat, /*non_blocking=*/false, /*copy=*/true)
              .view({embedded.size(1), embedded.size(2)})) {
    for (const Segment& segment : segments) {
      segment.cache->check_room(segment.time);
      past.push_back(segment.cache->length());
      rows.push_back(segment.time);
    }
  }
};

}  // namespace

std::vector<at::Tensor> DecodeStep::angles(RopeTables& rope,
                                           const std::vector<Segment>& segments) const {
  std::vector<at::Tensor> out;
  const auto add = [&](const auto& rows_of) {
    std::vector<at::Tensor> cosines, sines;
    for (const Segment& segment : segments) {
      auto [cos, sin] = rows_of(segment.cache->length(), segment.time);
      cosines.push_back(std::move(cos));
      sines.push_back(std::move(sin));
    }
    out.push_back(segments.size() == 1 ? cosines[0] : at::cat(cosines));
    out.push_back(segments.size() == 1 ? sines[0] : at::cat(sines));
  };
  if (rotates_) add([&](std::int64_t past, std::int64_t time) { return rope.rows(past, time); });
  if (window_angles_)
    add([&](std::int64_t past, std::int64_t time) { return rope.window_rows(past, time); });
  return out;
}

at::Tensor DecodeStep::run(const at::Tensor& x, RopeTables& rope,
                           const std::vector<Segment>& segments, bool last_only,
                           Shards* shards) const {
  if (!shards) return run_whole(x, rope, segments, last_only, {}, 0);
  const auto [group, sums] = shards->sums();
  return shards->all_logits(sums && x.is_cpu()
                                ? run_whole(x, rope, segments, last_only, group, sums)
                                : run_halves(x, rope, segments, last_only, *shards));
}

at::Tensor DecodeStep::run_whole(const at::Tensor& x, RopeTables& rope,
                                 const std::vector<Segment>& segments, bool last_only,
                                 const std::string& group, std::int64_t sums) const {
  const Rows rows(x, segments);
  std::vector<at::Tensor> keys, values;
  for (const Segment& segment : segments) {
    keys.insert(keys.end(), segment.cache->keys().begin(), segment.cache->keys().end());
    values.insert(values.end(), segment.cache->values().begin(), segment.cache->values().end());
  }
  const at::Tensor logits =
      at::empty({last_only ? static_cast<std::int64_t>(segments.size()) : rows.x.size(0), outputs_},
                rows.x.options());
  std::vector<std::int64_t> summing;
  if (sums) {
    ops::DecoderConfig config = config_;
    config.sum_attention = (sums & 1) != 0;
    config.sum_feed_forward = (sums & 2) != 0;
    summing = ops::pack_decoder_config(config, layer_configs_);
  }
  decode_op().call(rows.x, weights_, keys, values, angles(rope, segments), rows.past, rows.rows,
                   sums ? summing : packed_, logits, std::nullopt, group);
  return logits.unsqueeze(0);
}

at::Tensor DecodeStep::run_halves(const at::Tensor& x, RopeTables& rope,
                                  const std::vector<Segment>& segments, bool last_only,
                                  Shards& shards) const {
  const Rows rows(x, segments);
  const std::vector<at::Tensor> turns = angles(rope, segments);
  const at::Tensor change = at::empty_like(rows.x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::vector<at::Tensor> keys, values;
    for (const Segment& segment : segments) {
      keys.push_back(segment.cache->keys()[i]);
      values.push_back(segment.cache->values()[i]);
    }
    using Part = ops::DecoderConfig::Part;
    for (const Part part : {Part::attention, Part::feed_forward}) {
      ops::DecoderConfig config = config_;
      config.part = part;
      decode_op().call(rows.x, layers_[i], keys, values, turns, rows.past, rows.rows,
                       ops::pack_decoder_config(config, {layer_configs_[i]}), std::nullopt, change,
                       {});
      rows.x.add_(part == Part::attention ? shards.after_attention(change)
                                          : shards.after_feed_forward(change));
    }
  }
  const at::Tensor logits =
      at::empty({last_only ? static_cast<std::int64_t>(segments.size()) : rows.x.size(0), outputs_},
                rows.x.options());
  decode_op().call(rows.x, last_, {}, {}, {}, rows.past, rows.rows,
                   ops::pack_decoder_config(config_, {}), logits, std::nullopt, {});
  return logits.unsqueeze(0);
}

}  // namespace anyaccel::llm
