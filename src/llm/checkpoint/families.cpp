// Model families. Each one is described by its differences from Llama.
#include <cmath>

#include "anyaccel/error.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

void read_llama(const JsonReader& in, const Json&, ModelConfig& config) {
  config.qkv_bias = config.output_bias = in.boolean("attention_bias").value_or(false);
  config.mlp_bias = in.boolean("mlp_bias").value_or(false);
}

/// Returns the sliding-window size; 0 disables sliding-window attention. So does a null value.
/// `absent` is the result if the key is missing.
std::int64_t window(const JsonReader& in, const Json& object, std::int64_t absent) {
  if (!object.contains("sliding_window")) return absent;
  return in.integer("sliding_window", 1, kMaxSize).value_or(0);
}

void see_everywhere(ModelConfig& config, std::int64_t positions) {
  if (positions > 0) config.windows.assign(static_cast<std::size_t>(config.num_layers), positions);
}

void read_mistral(const JsonReader& in, const Json& object, ModelConfig& config) {
  see_everywhere(config, window(in, object, 4096));
}

/// Sets the sliding-window size of each layer from `layer_types` if the file has this key,
/// otherwise from `usual(layer)`.
template <typename Usual>
void read_layer_types(const JsonReader& in, const Json& object, ModelConfig& config,
                      std::int64_t positions, Usual usual) {
  const auto layers = static_cast<std::size_t>(config.num_layers);
  const Json* types = in.has("layer_types") ? &object["layer_types"] : nullptr;
  if (types && (!types->is_array() || types->size() != layers)) {
    corrupt_config(in.source() + ": layer_types is not a list with one name per layer");
  }
  for (std::size_t i = 0; i < layers; ++i) {
    bool slides = false;
    if (types) {
      const Json& item = (*types)[i];
      const std::string type = item.is_string() ? item.get<std::string>() : item.dump();
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention") {
        unsupported_config(in.source(), "layer_types", type,
                           "\"full_attention\" or \"sliding_attention\"");
      }
    } else {
      slides = usual(static_cast<std::int64_t>(i));
    }
    config.windows.push_back(slides ? positions : 0);
  }
}

/// Layers with index max_window_layers or higher use sliding-window attention, unless the file has
/// layer_types.
void read_qwen_windows(const JsonReader& in, const Json& object, ModelConfig& config) {
  const bool used = in.boolean("use_sliding_window").value_or(false);
  const auto first = in.integer("max_window_layers", 0, kMaxSize).value_or(28);
  read_layer_types(in, object, config, used ? window(in, object, 4096) : 0,
                   [&](std::int64_t i) { return i >= first; });
}

void read_qwen2(const JsonReader& in, const Json& object, ModelConfig& config) {
  config.qkv_bias = true;
  read_qwen_windows(in, object, config);
}

void read_qwen3(const JsonReader& in, const Json& object, ModelConfig& config) {
  config.qkv_bias = config.output_bias = in.boolean("attention_bias").value_or(false);
  config.query_key_norm = true;
  read_qwen_windows(in, object, config);
}

void read_phi3(const JsonReader& in, const Json& object, ModelConfig& config) {
  config.fused_weights = true;
  if (config.rope.type != RopeType::standard && config.rope.type != RopeType::longrope) {
    // In the order of RopeType.
    constexpr const char* kNames[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
    unsupported_config(in.source(), "phi3 rope type",
                       kNames[static_cast<std::size_t>(config.rope.type)], "default or longrope");
  }
  see_everywhere(config, window(in, object, 0));
}

double softcap(const JsonReader& in, const Json& object, const char* key, double absent) {
  if (!object.contains(key)) return absent;
  const double cap = in.number(key).value_or(0);
  if (in.has(key) && !(cap > 0)) corrupt_config(in.source() + ": " + key + " must be above 0");
  return cap;
}

void read_gemma(const JsonReader& in, const Json& object, ModelConfig& config, double attention_cap,
                double logit_cap) {
  if (in.boolean("use_bidirectional_attention").value_or(false)) {
    unsupported_config(in.source(), "use_bidirectional_attention", "true", "false");
  }
  config.qkv_bias = config.output_bias = in.boolean("attention_bias").value_or(false);
  config.norm_plus_one = true;
  config.norms_after = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  const double scalar = in.number("query_pre_attn_scalar").value_or(256);
  if (!(scalar > 0)) corrupt_config(in.source() + ": query_pre_attn_scalar must be above 0");
  config.attention_scale = 1 / std::sqrt(scalar);
  config.attention_softcap = softcap(in, object, "attn_logit_softcapping", attention_cap);
  config.logit_softcap = softcap(in, object, "final_logit_softcapping", logit_cap);
}

void read_gemma2(const JsonReader& in, const Json& object, ModelConfig& config) {
  read_gemma(in, object, config, 50, 30);
  read_layer_types(in, object, config, window(in, object, 4096),
                   [](std::int64_t i) { return i % 2 == 0; });
}

void read_gemma3(const JsonReader& in, const Json& object, ModelConfig& config) {
  read_gemma(in, object, config, 0, 0);
  config.query_key_norm = true;
  const auto pattern = in.integer("sliding_window_pattern", 1, kMaxSize).value_or(6);
  read_layer_types(in, object, config, window(in, object, 4096),
                   [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  config.window_rope_theta = in.number("rope_local_base_freq").value_or(10000.0);
  const Json* rope = in.object("rope_parameters");
  if (rope && rope->contains("sliding_attention")) {
    const JsonReader outer(*rope, in.source() + ", rope_parameters");
    const Json* inner = outer.object("sliding_attention");
    if (!inner) return;
    const JsonReader local(*inner, outer.source() + ", sliding_attention");
    const std::string type = local.string("rope_type").value_or("default");
    if (type != "default")
      unsupported_config(in.source(), "sliding_attention rope type", type, "default");
    config.window_rope_theta = local.number("rope_theta").value_or(config.window_rope_theta);
  }
  if (!(config.window_rope_theta > 0))
    corrupt_config(in.source() + ": rope_local_base_freq must be above 0");
}

void read_mixtral(const JsonReader& in, const Json& object, ModelConfig& config) {
  see_everywhere(config, window(in, object, 0));
  config.num_experts = in.integer("num_local_experts", 1, 65536).value_or(8);
  config.experts_per_token = in.integer("num_experts_per_tok", 1, 65536).value_or(2);
  config.expert_size = config.intermediate_size;
  config.normalize_experts = true;
  config.expert_layers.assign(static_cast<std::size_t>(config.num_layers), true);
}

void read_qwen3_moe(const JsonReader& in, const Json& object, ModelConfig& config) {
  config.qkv_bias = config.output_bias = in.boolean("attention_bias").value_or(false);
  config.query_key_norm = true;
  if (in.boolean("use_sliding_window").value_or(false))
    see_everywhere(config, window(in, object, 4096));
  // Files written by transformers 5 use Mixtral's key.
  const auto experts = in.integer("num_local_experts", 0, 65536);
  config.num_experts = experts ? *experts : in.integer("num_experts", 0, 65536).value_or(128);
  config.experts_per_token = in.integer("num_experts_per_tok", 1, 65536).value_or(8);
  config.expert_size = in.integer("moe_intermediate_size", 1, kMaxSize).value_or(768);
  config.normalize_experts = in.boolean("norm_topk_prob").value_or(false);
  if (config.num_experts == 0) return;
  const auto step = in.integer("decoder_sparse_step", 1, kMaxSize).value_or(1);
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    config.expert_layers.push_back((i + 1) % step == 0);
  if (!in.has("mlp_only_layers")) return;
  const Json& dense = object["mlp_only_layers"];
  if (!dense.is_array())
    corrupt_config(in.source() + ": mlp_only_layers is not a list of layer numbers");
  for (const Json& item : dense) {
    const Json one = {{"mlp_only_layers", item}};
    const auto layer =
        JsonReader(one, in.source()).required_integer("mlp_only_layers", 0, kMaxSize);
    if (layer < config.num_layers) config.expert_layers[static_cast<std::size_t>(layer)] = false;
  }
}

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", {}, read_llama},
    {"mistral", "MistralForCausalLM", {.max_positions = 131072, .num_kv_heads = 8}, read_mistral},
    {"qwen2", "Qwen2ForCausalLM", {.max_positions = 32768, .num_kv_heads = 32}, read_qwen2},
    {"qwen3",
     "Qwen3ForCausalLM",
     {.max_positions = 32768, .num_kv_heads = 32, .head_dim = 128},
     read_qwen3},
    {"phi3",
     "Phi3ForCausalLM",
     {.max_positions = 4096,
      .rms_norm_eps = 1e-5,
      .original_positions = 4096,
      .partial_rotation = true},
     read_phi3},
    {"gemma2",
     "Gemma2ForCausalLM",
     {.max_positions = 8192,
      .num_kv_heads = 4,
      .head_dim = 256,
      .tied = true,
      .activation = "gelu_pytorch_tanh"},
     read_gemma2,
     {.activation = "hidden_activation"}},
    {"gemma3_text",
     "Gemma3ForCausalLM",
     {.max_positions = 131072,
      .num_kv_heads = 4,
      .head_dim = 256,
      .tied = true,
      .rope_theta = 1e6,
      .activation = "gelu_pytorch_tanh"},
     read_gemma3,
     {.activation = "hidden_activation"}},
    {"mixtral",
     "MixtralForCausalLM",
     {.max_positions = 131072, .num_kv_heads = 8, .rms_norm_eps = 1e-5, .rope_theta = 1e6},
     read_mixtral},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM",
     {.max_positions = 32768, .num_kv_heads = 4},
     read_qwen3_moe},
    {"gpt2",
     "GPT2LMHeadModel",
     {.max_positions = 1024,
      .rms_norm_eps = 1e-5,
      .tied = true,
      .inner_factor = 4,
      .activation = "gelu_new",
      .bos_token_id = 50256,
      .eos_token_id = 50256},
     read_gpt2,
     {.hidden = "n_embd",
      .inner = "n_inner",
      .layers = "n_layer",
      .heads = "n_head",
      .positions = "n_positions",
      .norm_eps = "layer_norm_epsilon",
      .activation = "activation_function"}},
    {"opt",
     "OPTForCausalLM",
     {.tied = true, .activation = "relu", .bos_token_id = 2, .eos_token_id = 2},
     read_opt,
     {.inner = "ffn_dim", .activation = "activation_function"}},
};

}  // namespace

const Family& find_family(const JsonReader& in, const Json& object) {
  const std::string type = in.string("model_type").value_or("(none)");
  const Family* found = nullptr;
  std::string all;
  for (const Family& family : kFamilies) {
    if (type == family.model_type) found = &family;
    all += (all.empty() ? "" : ", ") + std::string(family.model_type);
  }
  if (!found) unsupported_config(in.source(), "model_type", type, "one of " + all);
  if (in.has("architectures")) {
    const Json& names = object["architectures"];
    if (!names.is_array() || names.empty() || !names[0].is_string()) {
      corrupt_config(in.source() + ": architectures is not a list of names");
    }
    const auto name = names[0].get<std::string>();
    if (name != found->architecture) {
      unsupported_config(in.source(), "architecture", name,
                         "\"" + std::string(found->architecture) + "\"");
    }
  }
  return *found;
}

}  // namespace anyaccel::llm
