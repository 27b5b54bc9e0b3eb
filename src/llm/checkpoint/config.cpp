#include "anyaccel/llm/config.h"

#include "anyaccel/error.h"
#include "base/file_group.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/activation.h"
#include "llm/checkpoint/config_json.h"
#include "llm/checkpoint/stored_config.h"

namespace anyaccel::llm {

namespace {

std::vector<std::int64_t> read_eos(const JsonReader& in, const Json& object) {
  if (!in.has("eos_token_id")) return {};
  const Json& value = object["eos_token_id"];
  if (!value.is_array()) return {*in.integer("eos_token_id", -1, kMaxSize)};
  std::vector<std::int64_t> ids;
  for (const Json& item : value) {
    const Json one = {{"eos_token_id", item}};
    ids.push_back(JsonReader(one, in.source()).required_integer("eos_token_id", -1, kMaxSize));
  }
  return ids;
}

std::int64_t read_inner(const JsonReader& in, const Family& family, std::int64_t hidden) {
  if (in.has(family.keys.inner) || family.defaults.inner_factor == 0) {
    return in.required_integer(family.keys.inner, 1, kMaxSize);
  }
  if (hidden > kMaxSize / family.defaults.inner_factor)
    corrupt_config(in.source() + ": " + family.keys.hidden + " is too large");
  return hidden * family.defaults.inner_factor;
}

void check_as_file(const ModelConfig& config, const std::string& source) {
  try {
    config.check();
  } catch (const Error& error) {
    corrupt_config(source + " is inconsistent: " + error.what());
  }
}

}  // namespace

void unsupported_config(const std::string& source, const std::string& key, const std::string& got,
                        const std::string& want) {
  throw Error(ErrorCode::unsupported, "load_config",
              {.what = source + ": this " + key + " is not supported",
               .got = quoted_text(got),
               .want = want});
}

void corrupt_config(const std::string& what) {
  throw Error(ErrorCode::corrupt, "load_config", {.what = what});
}

ModelConfig ModelConfig::read(const std::filesystem::path& folder) {
  finish_file_group(folder);
  const auto path = folder / "config.json";
  ModelConfig config = model_config(read_json_object(path), path.string());
  // Only this file lists all ids that end a chat model's turn.
  const auto generation = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(generation, ignored)) return config;
  const Json object = read_json_object(generation);
  const JsonReader in(object, generation.string());
  if (in.has("eos_token_id")) config.eos_token_ids = read_eos(in, object);
  check_as_file(config, generation.string());
  return config;
}

ModelConfig model_config(const Json& object, const std::string& source) {
  const JsonReader in(object, source);
  const Family& family = find_family(in, object);
  // Reject unsupported weight formats before reading any other key.
  stored_config(object, source);
  ModelConfig config;
  config.model_type = family.model_type;
  config.vocab_size = in.required_integer("vocab_size", 1, kMaxSize);
  config.hidden_size = in.required_integer(family.keys.hidden, 1, kMaxSize);
  config.intermediate_size = read_inner(in, family, config.hidden_size);
  config.num_layers = in.required_integer(family.keys.layers, 1, 4096);
  config.num_heads = in.required_integer(family.keys.heads, 1, 65536);
  const bool kv_heads_left_out =
      family.defaults.num_kv_heads > 0 && !object.contains("num_key_value_heads");
  config.num_kv_heads =
      kv_heads_left_out ? family.defaults.num_kv_heads
                        : in.integer("num_key_value_heads", 1, 65536).value_or(config.num_heads);
  config.head_dim =
      in.integer("head_dim", 1, 65536)
          .value_or(family.defaults.head_dim > 0 ? family.defaults.head_dim
                                                 : config.hidden_size / config.num_heads);
  config.max_positions =
      in.integer(family.keys.positions, 1, kMaxSize).value_or(family.defaults.max_positions);
  config.rms_norm_eps = in.number(family.keys.norm_eps).value_or(family.defaults.rms_norm_eps);
  config.activation = read_activation(in, family.keys.activation, family.defaults.activation);
  config.initializer_range = in.number("initializer_range").value_or(0.02);
  config.tie_word_embeddings = in.boolean("tie_word_embeddings").value_or(family.defaults.tied);
  config.rope = read_rope(in, config, family.defaults);
  if (config.rope.partial != 1.0 && !family.defaults.partial_rotation) {
    unsupported_config(in.source(), "partial_rotary_factor", std::to_string(config.rope.partial),
                       "1");
  }
  const auto usual = [&](std::int64_t id) { return id < config.vocab_size ? id : -1; };
  config.bos_token_id = object.contains("bos_token_id")
                            ? in.integer("bos_token_id", -1, kMaxSize).value_or(-1)
                            : usual(family.defaults.bos_token_id);
  config.eos_token_ids = read_eos(in, object);
  const std::int64_t end = usual(family.defaults.eos_token_id);
  if (!object.contains("eos_token_id") && end >= 0) config.eos_token_ids = {end};
  family.read(in, object, config);
  check_as_file(config, source);
  return config;
}

std::string ModelConfig::to_json() const {
  if (model_type != "llama" || qkv_bias != output_bias || !windows.empty() ||
      (rope.type != RopeType::standard && rope.type != RopeType::linear &&
       rope.type != RopeType::dynamic && rope.type != RopeType::llama3)) {
    throw Error(ErrorCode::unsupported, "ModelConfig::to_json",
                {.what = "cannot save a model of this family",
                 .got = model_type,
                 .want = "a model created by `anyaccel train`"});
  }
  Json out;
  out["architectures"] = {"LlamaForCausalLM"};
  out["model_type"] = "llama";
  out["vocab_size"] = vocab_size;
  out["hidden_size"] = hidden_size;
  out["intermediate_size"] = intermediate_size;
  out["num_hidden_layers"] = num_layers;
  out["num_attention_heads"] = num_heads;
  out["num_key_value_heads"] = num_kv_heads;
  out["head_dim"] = head_dim;
  out["hidden_act"] = activation_name(activation);
  out["max_position_embeddings"] = max_positions;
  out["rms_norm_eps"] = rms_norm_eps;
  out["initializer_range"] = initializer_range;
  out["tie_word_embeddings"] = tie_word_embeddings;
  out["attention_bias"] = qkv_bias;
  out["mlp_bias"] = mlp_bias;
  const char* types[] = {"default", "linear", "dynamic", "llama3"};
  Json parameters = {{"rope_type", types[static_cast<int>(rope.type)]}, {"rope_theta", rope.theta}};
  if (rope.type != RopeType::standard) parameters["factor"] = rope.factor;
  if (rope.type == RopeType::llama3) {
    parameters["low_freq_factor"] = rope.low_freq_factor;
    parameters["high_freq_factor"] = rope.high_freq_factor;
    parameters["original_max_position_embeddings"] = rope.original_max_positions;
  }
  out["rope_parameters"] = parameters;
  out["rope_theta"] = rope.theta;  // read by transformers before version 5
  if (rope.type != RopeType::standard) out["rope_scaling"] = parameters;
  if (bos_token_id >= 0) out["bos_token_id"] = bos_token_id;
  if (eos_token_ids.size() == 1) out["eos_token_id"] = eos_token_ids[0];
  if (eos_token_ids.size() > 1) out["eos_token_id"] = eos_token_ids;
  out["dtype"] = "float32";
  out["torch_dtype"] = "float32";
  out["use_cache"] = true;
  return out.dump(2) + "\n";
}

}  // namespace anyaccel::llm
