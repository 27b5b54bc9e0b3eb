// Shape of a Llama-architecture model, as config.json of a Hugging Face folder says it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace anyaccel::llm {

/// How positions are scaled (transformers' modeling_rope_utils).
enum class RopeType { standard, linear, dynamic, llama3 };

/// Rotary position embedding, Su et al. 2021 (arXiv:2104.09864).
struct RopeConfig {
  RopeType type = RopeType::standard;
  double theta = 10000.0;
  double factor = 1.0;                      ///< linear, dynamic, llama3
  double low_freq_factor = 1.0;             ///< llama3
  double high_freq_factor = 4.0;            ///< llama3
  std::int64_t original_max_positions = 0;  ///< llama3
};

/// A Llama model's sizes. Plain data; `check()` says whether they fit together.
struct ModelConfig {
  std::int64_t vocab_size = 257;
  std::int64_t hidden_size = 256;
  std::int64_t intermediate_size = 688;
  std::int64_t num_layers = 3;
  std::int64_t num_heads = 4;
  std::int64_t num_kv_heads = 4;  ///< fewer than num_heads: grouped-query attention
  std::int64_t head_dim = 64;
  std::int64_t max_positions = 256;  ///< the context: prompt and generated tokens together
  double rms_norm_eps = 1e-5;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  RopeConfig rope;
  std::int64_t bos_token_id = -1;           ///< -1: none
  std::vector<std::int64_t> eos_token_ids;  ///< each of them ends generation

  /// Reads config.json of a folder, in the style of transformers 5 (`rope_parameters`) or older (`rope_theta`,
  /// `rope_scaling`). Throws `not_found`, `corrupt` naming file and key, or `unsupported` naming what is not Llama.
  static ModelConfig read(const std::filesystem::path& folder);
  /// config.json's text for float32 weights, in transformers' style.
  std::string to_json() const;
  /// Throws `invalid_argument` when sizes contradict each other.
  void check() const;
  /// Tokens that a sequence may have: max_positions, times the factor where positions are scaled dynamically.
  std::int64_t context_length() const;
  std::int64_t parameter_count() const;
};

}  // namespace anyaccel::llm
