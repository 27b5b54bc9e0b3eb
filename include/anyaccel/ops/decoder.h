// Configuration of the op `torch.ops.anyaccel.inference_decode`. Fill in the structs and pass the
// result of pack_decoder_config() as the op's argument `config`. The op checks all values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace anyaccel::ops {

/// Maximum number of rows (new tokens of all sequences) in a pass for which each row's result is
/// bit-identical to that of a separate pass.
constexpr std::int64_t max_decode_rows = 16;
/// Maximum number of rows per pass. Passes with experts are limited to max_decode_rows.
constexpr std::int64_t max_decode_prompt_rows = 512;
/// Maximum head dimension.
constexpr std::int64_t max_decode_head_dim = 512;

/// Properties that all layers share, for one rank's part of the model.
struct DecoderConfig {
  static constexpr std::int32_t current_version = 1;

  /// Kind of norm. `rms_plus_one` multiplies by 1 + weight.
  enum class Norm : std::int32_t { rms, rms_plus_one, layer };
  /// Activation function of the feed-forward layers.
  enum class Activation : std::int32_t { silu, gelu, gelu_tanh, relu, relu2 };
  /// Which part of each layer a call computes. If ranks split a layer and all-reduce outside the
  /// op, each call computes half a layer.
  enum class Part : std::int32_t { whole, attention, feed_forward };

  /// Version of these structs. Keep the default.
  std::int32_t version = current_version;
  std::int32_t num_layers = 0;  ///< number of layers; 0: only the final norm and the head
  /// Number of query heads.
  std::int32_t num_heads = 1;
  /// Number of key and value heads.
  std::int32_t num_kv_heads = 1;
  /// Head dimension.
  std::int32_t head_dim = 1;
  /// Number of query heads per key head. 0: num_heads / num_kv_heads, which must be an integer.
  std::int32_t heads_per_kv_head = 0;
  /// Number of query heads that share this rank's first key head but precede this rank's first
  /// query head.
  std::int32_t first_head = 0;
  std::int32_t experts_per_token = 0;  ///< number of experts per token; 0: no layer has experts
  Norm norm = Norm::rms;
  Activation activation = Activation::silu;
  Part part = Part::whole;
  std::int32_t reserved = 0;
  // Flags: 0 or 1.
  std::uint8_t gated = 0;              ///< gated feed-forward layers (SwiGLU, GeGLU)
  std::uint8_t norms_after = 0;        ///< norms after attention and after the feed-forward part
  std::uint8_t final_norm = 0;         ///< apply a norm before the head
  std::uint8_t normalize_experts = 0;  ///< normalize the weights of the chosen experts to sum to 1
  /// All-reduce the attention output over the group named by the op's argument `sum_group`.
  std::uint8_t sum_attention = 0;
  /// All-reduce the output of the feed-forward part over the same group.
  std::uint8_t sum_feed_forward = 0;
  std::uint8_t reserved_bytes[2] = {};
  /// Norm epsilon.
  double norm_eps = 1e-5;
  double attention_softcap = 0;  ///< soft cap on the scores; 0: none
};

/// Properties of one layer.
struct DecoderLayerConfig {
  /// Multiplier for the attention scores.
  double attention_scale = 1;
  /// Number of positions that a token attends to, including itself. 0: all.
  std::int64_t window = 0;
};

static_assert(std::is_trivially_copyable_v<DecoderConfig> && sizeof(DecoderConfig) == 72);
static_assert(std::is_trivially_copyable_v<DecoderLayerConfig> && sizeof(DecoderLayerConfig) == 16);

/// Return the op's argument `config`: the bytes of `config` and `layers` as 8-byte integers. Sets
/// `num_layers` to the number of `layers`.
inline std::vector<std::int64_t> pack_decoder_config(
    DecoderConfig config, const std::vector<DecoderLayerConfig>& layers) {
  config.num_layers = static_cast<std::int32_t>(layers.size());
  std::vector<std::int64_t> words((sizeof config + layers.size() * sizeof(DecoderLayerConfig)) /
                                  sizeof(std::int64_t));
  std::memcpy(words.data(), &config, sizeof config);
  if (!layers.empty())
    std::memcpy(words.data() + sizeof config / sizeof(std::int64_t), layers.data(),
                layers.size() * sizeof(DecoderLayerConfig));
  return words;
}

}  // namespace anyaccel::ops
