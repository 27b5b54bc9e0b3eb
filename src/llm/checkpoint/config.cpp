#include "anyaccel/llm/config.h"

#include "anyaccel/error.h"
#include "base/file_group.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
constexpr double kMaxFactor = 65536;  // the context, its product with a size, stays a whole number

[[noreturn]] void unsupported(const std::string& source, const std::string& key, const std::string& got,
                              const std::string& want) {
  throw Error(ErrorCode::unsupported, "load_config",
              {.what = source + ": this " + key + " is not supported", .got = "\"" + got + "\"", .want = want});
}

void read_scaling(const JsonReader& in, RopeConfig& rope) {
  // "type" is the key of files from before transformers 4.43.
  const std::string type = in.string("rope_type").value_or(in.string("type").value_or("default"));
  if (type == "default") return;
  if (type == "linear")
    rope.type = RopeType::linear;
  else if (type == "dynamic")
    rope.type = RopeType::dynamic;
  else if (type == "llama3")
    rope.type = RopeType::llama3;
  else
    unsupported(in.source(), "rope type", type, "default, linear, dynamic or llama3");

  const auto factor = in.number("factor");
  if (!factor || *factor < 1.0 || *factor > kMaxFactor) {
    throw Error(ErrorCode::corrupt, "load_config",
                {.what = in.source() + ": rope type " + type + " needs a \"factor\" of 1 to 65536"});
  }
  rope.factor = *factor;
  if (rope.type == RopeType::llama3) {
    rope.low_freq_factor = in.number("low_freq_factor").value_or(1.0);
    rope.high_freq_factor = in.number("high_freq_factor").value_or(4.0);
    rope.original_max_positions = in.required_integer("original_max_position_embeddings", 1, kMaxSize);
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      throw Error(ErrorCode::corrupt, "load_config",
                  {.what = in.source() + ": high_freq_factor must be above low_freq_factor"});
    }
  }
}

RopeConfig read_rope(const JsonReader& in) {
  RopeConfig rope;
  rope.theta = in.number("rope_theta").value_or(10000.0);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (const Json* object = in.object(key)) {
      const JsonReader parameters(*object, in.source() + ", " + key);
      rope.theta = parameters.number("rope_theta").value_or(rope.theta);
      if (parameters.number("partial_rotary_factor").value_or(1.0) != 1.0) {
        unsupported(in.source(), "partial_rotary_factor", "not 1", "1");
      }
      read_scaling(parameters, rope);
      break;
    }
  }
  return rope;
}

void check_architecture(const JsonReader& in, const Json& object) {
  const std::string type = in.string("model_type").value_or("(none)");
  if (type != "llama") unsupported(in.source(), "model_type", type, "\"llama\"");
  if (in.has("architectures")) {
    const Json& names = object["architectures"];
    if (!names.is_array() || names.empty() || !names[0].is_string()) {
      throw Error(ErrorCode::corrupt, "load_config", {.what = in.source() + ": architectures is no list of names"});
    }
    const auto name = names[0].get<std::string>();
    if (name != "LlamaForCausalLM") unsupported(in.source(), "architecture", name, "\"LlamaForCausalLM\"");
  }
  const std::string activation = in.string("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") unsupported(in.source(), "hidden_act", activation, "\"silu\"");
  if (in.has("quantization_config")) {
    unsupported(in.source(), "quantization_config", "a quantized checkpoint", "plain floating-point weights");
  }
}

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

}  // namespace

ModelConfig ModelConfig::read(const std::filesystem::path& folder) {
  finish_file_group(folder);
  const auto path = folder / "config.json";
  return model_config(read_json_object(path), path.string());
}

ModelConfig model_config(const Json& object, const std::string& source) {
  const JsonReader in(object, source);
  check_architecture(in, object);
  ModelConfig config;
  config.vocab_size = in.required_integer("vocab_size", 1, kMaxSize);
  config.hidden_size = in.required_integer("hidden_size", 1, kMaxSize);
  config.intermediate_size = in.required_integer("intermediate_size", 1, kMaxSize);
  config.num_layers = in.required_integer("num_hidden_layers", 1, 4096);
  config.num_heads = in.required_integer("num_attention_heads", 1, 65536);
  config.num_kv_heads = in.integer("num_key_value_heads", 1, 65536).value_or(config.num_heads);
  config.head_dim = in.integer("head_dim", 1, 65536).value_or(config.hidden_size / config.num_heads);
  config.max_positions = in.integer("max_position_embeddings", 1, kMaxSize).value_or(2048);
  config.rms_norm_eps = in.number("rms_norm_eps").value_or(1e-6);
  config.initializer_range = in.number("initializer_range").value_or(0.02);
  config.tie_word_embeddings = in.boolean("tie_word_embeddings").value_or(false);
  config.attention_bias = in.boolean("attention_bias").value_or(false);
  config.mlp_bias = in.boolean("mlp_bias").value_or(false);
  config.rope = read_rope(in);
  config.bos_token_id = in.integer("bos_token_id", -1, kMaxSize).value_or(-1);
  config.eos_token_ids = read_eos(in, object);
  try {
    config.check();
  } catch (const Error& error) {
    throw Error(ErrorCode::corrupt, "load_config", {.what = source + " contradicts itself: " + error.what()});
  }
  return config;
}

std::string ModelConfig::to_json() const {
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
  out["hidden_act"] = "silu";
  out["max_position_embeddings"] = max_positions;
  out["rms_norm_eps"] = rms_norm_eps;
  out["initializer_range"] = initializer_range;
  out["tie_word_embeddings"] = tie_word_embeddings;
  out["attention_bias"] = attention_bias;
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
  out["rope_theta"] = rope.theta;  // transformers before 5 looks here
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
