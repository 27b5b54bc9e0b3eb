// What follows from a configuration's numbers.
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
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"vocab_size", vocab_size}, {"hidden_size", hidden_size},    {"intermediate_size", intermediate_size},
      {"num_layers", num_layers}, {"num_heads", num_heads},        {"num_kv_heads", num_kv_heads},
      {"head_dim", head_dim},     {"max_positions", max_positions}};
  for (const auto& [name, value] : sizes) {
    if (value < 1) fail(std::string(name) + " must be positive", std::to_string(value), "1 or more");
  }
  if (num_heads % num_kv_heads != 0) {
    fail("attention heads must be a multiple of key-value heads",
         std::to_string(num_heads) + " and " + std::to_string(num_kv_heads), "a multiple");
  }
  if (head_dim % 2 != 0) fail("head_dim must be even to be rotated", std::to_string(head_dim), "an even number");
  if (!(rms_norm_eps > 0)) fail("rms_norm_eps must be positive", std::to_string(rms_norm_eps), "above 0");
  if (!(std::isfinite(initializer_range) && initializer_range >= 0))
    fail("initializer_range must be a number", std::to_string(initializer_range), "0 or more");
  if (!(std::isfinite(rope.theta) && rope.theta > 0))
    fail("rope_theta must be positive", std::to_string(rope.theta), "above 0");
  for (const std::int64_t id : eos_token_ids) {
    if (id >= vocab_size) fail("eos_token_id is outside the vocabulary", std::to_string(id), "below vocab_size");
  }
}

std::int64_t ModelConfig::context_length() const {
  if (rope.type != RopeType::dynamic) return max_positions;
  return static_cast<std::int64_t>(std::floor(static_cast<double>(max_positions) * rope.factor));
}

std::int64_t ModelConfig::parameter_count() const {
  const std::int64_t query = num_heads * head_dim;
  const std::int64_t key_value = num_kv_heads * head_dim;
  std::int64_t layer =
      hidden_size * (2 * query + 2 * key_value) + 3 * hidden_size * intermediate_size + 2 * hidden_size;
  if (attention_bias) layer += query + 2 * key_value + hidden_size;
  if (mlp_bias) layer += 2 * intermediate_size + hidden_size;
  return vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + num_layers * layer + hidden_size;
}

}  // namespace anyaccel::llm
