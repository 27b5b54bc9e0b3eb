// What a decoder model is made of, as config.json of a Hugging Face folder says it: a family is a
// set of these values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// How positions are scaled (transformers' modeling_rope_utils).
enum class RopeType { standard, linear, dynamic, llama3, yarn, longrope };

/// Rotary position embedding, Su et al. 2021 (arXiv:2104.09864).
struct RopeConfig {
  RopeType type = RopeType::standard;
  double theta = 10000.0;
  double factor = 1.0;                      ///< linear, dynamic, llama3, yarn
  double low_freq_factor = 1.0;             ///< llama3
  double high_freq_factor = 4.0;            ///< llama3
  std::int64_t original_max_positions = 0;  ///< llama3, yarn, longrope
  double beta_fast = 32.0;                  ///< yarn
  double beta_slow = 1.0;                   ///< yarn
  bool truncate = true;                     ///< yarn
  std::vector<double>
      short_factor;  ///< longrope, up to original_max_positions: one per rotated pair
  std::vector<double> long_factor;  ///< longrope, above it
  double attention_factor = 1.0;    ///< scales cosines and sines
  double partial = 1.0;             ///< share of each head that is rotated
};

/// Activation function of the feed-forward part.
enum class Activation { silu, gelu, gelu_tanh, relu, relu2 };

/// A model's sizes and what sets its family apart; the defaults are a Llama's. Plain data;
/// `check()` says whether they fit together.
struct ANYACCEL_API ModelConfig {
  std::string model_type = "llama";
  std::int64_t vocab_size = 257;
  std::int64_t hidden_size = 256;
  std::int64_t intermediate_size = 688;
  std::int64_t num_layers = 3;
  std::int64_t num_heads = 4;
  std::int64_t num_kv_heads = 4;  ///< fewer than num_heads: grouped-query attention
  std::int64_t head_group =
      0;  ///< of a rank's part: heads that share a key head; 0: num_heads / num_kv_heads
  std::int64_t first_head =
      0;  ///< where head_group is given: how many of the first key head's are another rank's
  std::int64_t head_dim = 64;
  std::int64_t max_positions = 256;  ///< the context: prompt and generated tokens together
  double rms_norm_eps = 1e-5;        ///< of LayerNorm too, where the model has that
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  ///< of the projection after attention
  bool mlp_bias = false;
  Activation activation = Activation::silu;
  bool gated =
      true;  ///< the feed-forward part has a gate; false: two matrices and the activation between
  std::int64_t embedding_size =
      0;  ///< of a token, projected to hidden_size and back; 0: hidden_size, no projection
  bool learned_positions =
      false;  ///< a vector per position is added to the embedding, nothing is rotated
  std::int64_t position_offset = 0;  ///< rows of the learned positions in front of the first one's
  bool layer_norm = false;           ///< LayerNorm in place of RMS norm
  bool norm_weights = true;          ///< false: LayerNorm without weights and biases
  bool norms_before = true;          ///< false: norms stand behind the sums (OPT-350m)
  bool final_norm = true;            ///< a norm behind the last layer
  bool norm_plus_one = false;        ///< norms multiply by 1 + weight, in float32 (Gemma)
  bool norms_after = false;  ///< attention and feed-forward part have a norm behind them too
  double embedding_scale = 1.0;
  double attention_scale = 0;    ///< of the scores; 0: 1 / sqrt(head_dim)
  bool scale_by_layer = false;   ///< scores are divided by the layer's number too, from 1 on
  double attention_softcap = 0;  ///< scores become cap * tanh(score / cap); 0: as they are
  double logit_softcap = 0;
  double window_rope_theta = 0;  ///< layers with a window turn by this, unscaled; 0: as the others
  std::int64_t num_experts = 0;  ///< of layers with experts in place of one feed-forward part
  std::int64_t experts_per_token = 0;
  std::int64_t expert_size = 0;     ///< intermediate size of one
  bool normalize_experts = false;   ///< the chosen ones' shares are made to sum up to 1
  std::vector<bool> expert_layers;  ///< which layers have them; empty: none
  bool query_key_norm = false;  ///< every head of query and key is normalized before it is rotated
  bool fused_weights = false;   ///< the checkpoint has qkv_proj and gate_up_proj
  std::vector<std::int64_t>
      windows;  ///< per layer, how many positions are seen; 0: all. Empty: all in every layer
  RopeConfig rope;
  std::int64_t bos_token_id = -1;           ///< -1: none
  std::vector<std::int64_t> eos_token_ids;  ///< each of them ends generation

  /// Reads config.json of a folder, in the style of transformers 5 (`rope_parameters`) or older
  /// (`rope_theta`, `rope_scaling`), and the end-of-text ids of generation_config.json where there
  /// is one. Throws `not_found`, `corrupt` naming file and key, or `unsupported` naming the family
  /// or option that is not there.
  static ModelConfig read(const std::filesystem::path& folder);
  /// config.json's text for float32 weights, in transformers' style. `unsupported` for families
  /// other than Llama.
  std::string to_json() const;
  /// Throws `invalid_argument` when sizes contradict each other.
  void check() const;
  /// Tokens that a sequence may have: max_positions, or more where positions are scaled for it.
  std::int64_t context_length() const;
  bool has_experts(std::int64_t layer) const {
    return !expert_layers.empty() && expert_layers[static_cast<std::size_t>(layer)];
  }
  std::int64_t embedding_width() const { return embedding_size > 0 ? embedding_size : hidden_size; }
  std::int64_t parameter_count() const;
};

}  // namespace anyaccel::llm
