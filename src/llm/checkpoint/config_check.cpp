// Consistency checks and sizes derived from a configuration.
#include <algorithm>
#include <cmath>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

void ModelConfig::check() const {
  auto fail = [](std::string what, std::string got, std::string want) {
    throw Error(ErrorCode::invalid_argument, "ModelConfig",
                {.what = std::move(what), .got = std::move(got), .want = std::move(want)});
  };
  const std::pair<const char*, std::int64_t> sizes[] = {{"vocab_size", vocab_size},
                                                        {"hidden_size", hidden_size},
                                                        {"intermediate_size", intermediate_size},
                                                        {"num_layers", num_layers},
                                                        {"num_heads", num_heads},
                                                        {"num_kv_heads", num_kv_heads},
                                                        {"head_dim", head_dim},
                                                        {"max_positions", max_positions}};
  for (const auto& [name, value] : sizes) {
    if (value < 1)
      fail(std::string(name) + " must be positive", std::to_string(value), "1 or more");
  }
  if (num_heads % num_kv_heads != 0) {
    fail("num_heads must be a multiple of num_kv_heads",
         std::to_string(num_heads) + " and " + std::to_string(num_kv_heads),
         "a multiple of " + std::to_string(num_kv_heads));
  }
  const auto rotated = static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.partial);
  if (!learned_positions && (rotated < 2 || rotated % 2 != 0)) {
    fail("the number of rotated values per head must be even and positive", std::to_string(rotated),
         "an even number of 2 or more");
  }
  if (embedding_size < 0 || position_offset < 0) {
    fail("embedding_size and position_offset must not be negative",
         std::to_string(embedding_size) + " and " + std::to_string(position_offset), "0 or more");
  }
  if (!expert_layers.empty() && (num_experts < 1 || expert_size < 1 || experts_per_token < 1 ||
                                 experts_per_token > num_experts)) {
    fail("experts_per_token is out of range", std::to_string(experts_per_token),
         "1 to " + std::to_string(num_experts));
  }
  if (!expert_layers.empty() && expert_layers.size() != static_cast<std::size_t>(num_layers)) {
    fail("expert_layers must have one entry per layer", std::to_string(expert_layers.size()),
         std::to_string(num_layers));
  }
  if (!windows.empty() && windows.size() != static_cast<std::size_t>(num_layers)) {
    fail("windows must have one entry per layer", std::to_string(windows.size()),
         std::to_string(num_layers));
  }
  if (!(rms_norm_eps > 0))
    fail("rms_norm_eps must be positive", std::to_string(rms_norm_eps), "a number above 0");
  if (!(std::isfinite(initializer_range) && initializer_range >= 0))
    fail("initializer_range must be finite and not negative", std::to_string(initializer_range),
         "0 or more");
  if (!(std::isfinite(rope.theta) && rope.theta > 0))
    fail("rope_theta must be positive", std::to_string(rope.theta), "a number above 0");
  for (const std::int64_t id : eos_token_ids) {
    if (id >= vocab_size)
      fail("eos_token_id is outside the vocabulary", std::to_string(id), "an id below vocab_size");
  }
}

std::int64_t ModelConfig::context_length() const {
  const std::int64_t base =
      rope.type == RopeType::dynamic ? max_positions : rope.original_max_positions;
  if (rope.type != RopeType::dynamic && rope.type != RopeType::yarn) return max_positions;
  return std::max(max_positions,
                  static_cast<std::int64_t>(std::floor(static_cast<double>(base) * rope.factor)));
}

std::int64_t ModelConfig::parameter_count() const {
  const std::int64_t query = num_heads * head_dim;
  const std::int64_t key_value = num_kv_heads * head_dim;
  const std::int64_t one_norm = !norm_weights ? 0 : layer_norm ? 2 * hidden_size : hidden_size;
  std::int64_t layer = hidden_size * (2 * query + 2 * key_value) + (norms_after ? 4 : 2) * one_norm;
  if (qkv_bias) layer += query + 2 * key_value;
  if (output_bias) layer += hidden_size;
  if (query_key_norm) layer += 2 * head_dim;
  const std::int64_t first = (gated ? 2 : 1) * intermediate_size;
  std::int64_t dense = (first + intermediate_size) * hidden_size;
  if (mlp_bias) dense += first + hidden_size;
  const std::int64_t experts = num_experts * hidden_size * (3 * expert_size + 1);
  std::int64_t all = vocab_size * embedding_width() * (tie_word_embeddings ? 1 : 2);
  if (embedding_width() != hidden_size) all += 2 * embedding_width() * hidden_size;
  if (learned_positions) all += (max_positions + position_offset) * hidden_size;
  if (final_norm) all += one_norm;
  for (std::int64_t i = 0; i < num_layers; ++i) all += layer + (has_experts(i) ? experts : dense);
  return all;
}

}  // namespace anyaccel::llm
