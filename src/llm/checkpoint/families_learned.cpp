// Families with learned position embeddings and LayerNorm.
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

void read_learned(const JsonReader& in, ModelConfig& config) {
  config.num_kv_heads = config.num_heads;
  if (config.hidden_size % config.num_heads != 0) {
    corrupt_config(in.source() + ": the hidden size " + std::to_string(config.hidden_size) +
                   " is not a multiple of the " + std::to_string(config.num_heads) + " heads");
  }
  config.head_dim = config.hidden_size / config.num_heads;
  config.rope = {};
  config.learned_positions = true;
  config.layer_norm = true;
  config.gated = false;
}

}  // namespace

void read_gpt2(const JsonReader& in, const Json&, ModelConfig& config) {
  read_learned(in, config);
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  if (!in.boolean("scale_attn_weights").value_or(true)) config.attention_scale = 1;
  config.scale_by_layer = in.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
  if (in.boolean("add_cross_attention").value_or(false)) {
    unsupported_config(in.source(), "add_cross_attention", "true", "false");
  }
}

void read_opt(const JsonReader& in, const Json&, ModelConfig& config) {
  read_learned(in, config);
  config.rms_norm_eps = 1e-5;
  config.qkv_bias = config.output_bias = config.mlp_bias = in.boolean("enable_bias").value_or(true);
  config.position_offset = 2;
  config.embedding_size = in.integer("word_embed_proj_dim", 1, kMaxSize).value_or(0);
  config.norm_weights = in.boolean("layer_norm_elementwise_affine").value_or(true);
  config.norms_before = in.boolean("do_layer_norm_before").value_or(true);
  config.final_norm =
      config.norms_before && !in.boolean("_remove_final_layer_norm").value_or(false);
}

}  // namespace anyaccel::llm
