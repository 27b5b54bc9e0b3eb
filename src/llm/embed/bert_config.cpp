#include "llm/embed/bert_config.h"

#include "llm/checkpoint/activation.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

BertConfig read_bert_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  const Json object = read_json_object(path);
  const JsonReader in(object, path.string());
  const std::string type = in.string("model_type").value_or("(none)");
  if (type != "bert")
    unsupported_config(in.source(), "model_type", type, "\"bert\" for embeddings");
  const std::string positions = in.string("position_embedding_type").value_or("absolute");
  if (positions != "absolute")
    unsupported_config(in.source(), "position_embedding_type", positions, "\"absolute\"");
  if (in.boolean("is_decoder").value_or(false))
    unsupported_config(in.source(), "is_decoder", "true", "false");
  if (in.has("quantization_config")) {
    unsupported_config(in.source(), "quantization_config", "a quantized checkpoint",
                       "plain floating-point weights");
  }
  BertConfig config;
  const auto size = [&](const char* key, std::int64_t& value, std::int64_t high = kMaxSize) {
    value = in.integer(key, 1, high).value_or(value);
  };
  size("vocab_size", config.vocab_size);
  size("hidden_size", config.hidden_size);
  size("intermediate_size", config.intermediate_size);
  size("num_hidden_layers", config.num_layers, 4096);
  size("num_attention_heads", config.num_heads, 65536);
  size("max_position_embeddings", config.max_positions);
  size("type_vocab_size", config.token_types);
  config.layer_norm_eps = in.number("layer_norm_eps").value_or(config.layer_norm_eps);
  config.activation = read_activation(in, "hidden_act", "gelu");
  if (config.hidden_size % config.num_heads != 0) {
    corrupt_config(in.source() + " is inconsistent: hidden_size " +
                   std::to_string(config.hidden_size) +
                   " is not a multiple of num_attention_heads " + std::to_string(config.num_heads));
  }
  return config;
}

}  // namespace anyaccel::llm
