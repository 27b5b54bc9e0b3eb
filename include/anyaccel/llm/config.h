// Configuration of decoder models, as in config.json of a Hugging Face folder. Model families
// differ only in the values of `ModelConfig`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// RoPE scaling, as in transformers' modeling_rope_utils.
enum class RopeType { standard, linear, dynamic, llama3, yarn, longrope };

/// Rotary position embedding (Su et al., 2021, arXiv:2104.09864). If a member's comment begins with
/// RoPE types, only those types use the member.
struct RopeConfig {
  RopeType type = RopeType::standard;
  /// RoPE base.
  double theta = 10000.0;
  double factor = 1.0;            ///< linear, dynamic, llama3, yarn: scaling factor
  double low_freq_factor = 1.0;   ///< llama3: factor for low frequencies
  double high_freq_factor = 4.0;  ///< llama3: factor for high frequencies
  /// llama3, yarn, longrope: context length before scaling.
  std::int64_t original_max_positions = 0;
  /// yarn: pairs that make more than this many rotations within original_max_positions are not
  /// scaled.
  double beta_fast = 32.0;
  /// yarn: pairs that make fewer than this many rotations within original_max_positions are fully
  /// scaled.
  double beta_slow = 1.0;
  bool truncate = true;  ///< yarn: round the ramp's bounds to integers
  /// longrope: one factor per rotated pair, for sequences of up to original_max_positions.
  std::vector<double> short_factor;
  /// longrope: one factor per rotated pair, for longer sequences.
  std::vector<double> long_factor;
  double attention_factor = 1.0;  ///< multiplier for the cosines and sines
  double partial = 1.0;           ///< fraction of each head's dimensions to rotate
};

/// Activation function of the feed-forward layers.
enum class Activation { silu, gelu, gelu_tanh, relu, relu2 };

/// Sizes and family-specific properties of a model. The defaults describe a small Llama. Plain
/// data; check() tests whether the members are consistent.
struct ANYACCEL_API ModelConfig {
  /// Name of the family, as in config.json.
  std::string model_type = "llama";
  /// Number of token ids.
  std::int64_t vocab_size = 257;
  /// Width of the residual stream.
  std::int64_t hidden_size = 256;
  /// Width of the feed-forward layers.
  std::int64_t intermediate_size = 688;
  /// Number of decoder layers.
  std::int64_t num_layers = 3;
  /// Number of query heads.
  std::int64_t num_heads = 4;
  /// Number of key and value heads. Fewer than num_heads: grouped-query attention.
  std::int64_t num_kv_heads = 4;
  /// For one rank's part of a model: number of query heads per key head. 0: num_heads /
  /// num_kv_heads.
  std::int64_t head_group = 0;
  /// With head_group: number of query heads that share this rank's first key head but precede this
  /// rank's first query head.
  std::int64_t first_head = 0;
  /// Head dimension.
  std::int64_t head_dim = 64;
  /// Context length: maximum total number of prompt and generated tokens.
  std::int64_t max_positions = 256;
  /// Epsilon for RMS norm or LayerNorm.
  double rms_norm_eps = 1e-5;
  /// Standard deviation for weight initialization.
  double initializer_range = 0.02;
  /// The output layer shares the embedding's weight.
  bool tie_word_embeddings = false;
  /// The query, key and value projections have biases.
  bool qkv_bias = false;
  /// The attention output projection has a bias.
  bool output_bias = false;
  /// The feed-forward layers have biases.
  bool mlp_bias = false;
  /// Activation function of the feed-forward layers.
  Activation activation = Activation::silu;
  /// The feed-forward layers are gated (SwiGLU, GeGLU). False: two projections with the activation
  /// between them.
  bool gated = true;
  /// Width of the token embeddings, which are projected to hidden_size and back. 0: hidden_size,
  /// without projections.
  std::int64_t embedding_size = 0;
  /// Add learned position embeddings to the token embeddings instead of using RoPE.
  bool learned_positions = false;
  /// Number of unused rows at the start of the learned position embeddings.
  std::int64_t position_offset = 0;
  /// Use LayerNorm instead of RMS norm.
  bool layer_norm = false;
  /// False: LayerNorm without weights and biases.
  bool norm_weights = true;
  /// Pre-norm: normalize before attention and before the feed-forward layers. False: post-norm,
  /// after each residual sum (OPT-350m).
  bool norms_before = true;
  /// Apply a norm after the last layer.
  bool final_norm = true;
  /// Norms multiply by 1 + weight, in float32 (Gemma).
  bool norm_plus_one = false;
  /// Also normalize after attention and after the feed-forward layers.
  bool norms_after = false;
  /// Multiplier for the token embeddings.
  double embedding_scale = 1.0;
  /// Multiplier for the attention scores. 0: 1 / sqrt(head_dim).
  double attention_scale = 0;
  /// Also divide the scores by the 1-based layer index.
  bool scale_by_layer = false;
  /// Soft cap on the attention scores: `cap * tanh(score / cap)`. 0: none.
  double attention_softcap = 0;
  /// Soft cap on the logits. 0: none.
  double logit_softcap = 0;
  /// RopeConfig::theta for sliding-window layers, which then do not scale RoPE. 0: they use the
  /// same RoPE as full-attention layers.
  double window_rope_theta = 0;
  /// Number of experts in each mixture-of-experts layer. 0: none.
  std::int64_t num_experts = 0;
  /// Number of experts that each token uses.
  std::int64_t experts_per_token = 0;
  /// Width of one expert's feed-forward layers.
  std::int64_t expert_size = 0;
  /// Normalize the router weights of a token's experts to sum to 1.
  bool normalize_experts = false;
  /// For each layer, whether it has experts. Empty: no layer has experts.
  std::vector<bool> expert_layers;
  /// QK norm: normalize each query and key head before RoPE.
  bool query_key_norm = false;
  /// The checkpoint has fused weights: qkv_proj and gate_up_proj.
  bool fused_weights = false;
  /// Sliding-window size of each layer, in positions. 0: full attention. Empty: all layers use full
  /// attention.
  std::vector<std::int64_t> windows;
  /// Rotary position embedding.
  RopeConfig rope;
  /// Id of the begin-of-text token. -1: none.
  std::int64_t bos_token_id = -1;
  /// Token ids that end generation.
  std::vector<std::int64_t> eos_token_ids;

  /// Read the configuration from a folder's config.json, in the format of transformers 5
  /// (`rope_parameters`) or of older releases (`rope_theta`, `rope_scaling`). The end-of-text ids
  /// are read from generation_config.json if it exists. Throws `not_found`, `corrupt` with the file
  /// and key, or `unsupported` with the family or option.
  static ModelConfig read(const std::filesystem::path& folder);
  /// Return the text of a config.json for float32 weights, in the format of transformers. Throws
  /// `unsupported` for families other than Llama.
  std::string to_json() const;
  /// Throw `invalid_argument` if members are inconsistent with each other.
  void check() const;
  /// Maximum number of tokens in a sequence: max_positions, or more if RoPE scaling extends the
  /// context.
  std::int64_t context_length() const;
  /// Return whether a layer has experts instead of a single feed-forward network.
  bool has_experts(std::int64_t layer) const {
    return !expert_layers.empty() && expert_layers[static_cast<std::size_t>(layer)];
  }
  /// Width of the token embeddings.
  std::int64_t embedding_width() const { return embedding_size > 0 ? embedding_size : hidden_size; }
  /// Return the number of parameters in the whole model.
  std::int64_t parameter_count() const;
};

}  // namespace anyaccel::llm
