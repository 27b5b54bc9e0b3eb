#include "llm/checkpoint/training_config.h"

#include "base/log.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

double probability(const JsonReader& in, const char* key, double absent) {
  const double value = in.number(key).value_or(absent);
  if (!(value >= 0 && value < 1))
    corrupt_config(in.source() + ": " + key + " must be at least 0 and below 1");
  return value;
}

/// Default pad_token_id of each family in transformers.
std::int64_t usual_padding(const std::string& type) {
  if (type == "phi3") return 32000;
  if (type == "opt") return 1;
  return type == "gemma2" || type == "gemma3_text" ? 0 : -1;
}

void warn(const JsonReader& in, const char* key) {
  log(LogLevel::warning, in.source() + ": " + key + " is ignored in training");
}

}  // namespace

TrainingConfig read_training_config(const Json& object, const std::string& source) {
  const JsonReader in(object, source);
  const std::string type = in.string("model_type").value_or("");
  TrainingConfig out;
  if (type == "gpt2") {
    out.attention_dropout = probability(in, "attn_pdrop", 0.1);
    out.residual_dropout = probability(in, "resid_pdrop", 0.1);
    out.embedding_dropout = probability(in, "embd_pdrop", 0.1);
    return out;  // its embedding has no padding_idx
  }
  out.attention_dropout = probability(in, "attention_dropout", 0);
  if (type == "phi3") out.residual_dropout = probability(in, "resid_pdrop", 0);
  if (type == "opt") {
    out.residual_dropout = probability(in, "dropout", 0.1);
    out.layer_drop = probability(in, "layerdrop", 0);
  }
  out.padding_id = object.contains("pad_token_id")
                       ? in.integer("pad_token_id", -1, kMaxSize).value_or(-1)
                       : usual_padding(type);
  if (out.padding_id >= in.required_integer("vocab_size", 1, kMaxSize)) out.padding_id = -1;
  if (in.boolean("output_router_logits").value_or(false)) warn(in, "output_router_logits");
  if (in.number("router_jitter_noise").value_or(0) > 0) warn(in, "router_jitter_noise");
  return out;
}

}  // namespace anyaccel::llm
