#include "llm/checkpoint/stored_config.h"

#include <algorithm>

#include "base/log.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

int read_bits(const JsonReader& in, const char* key, bool eight) {
  const std::int64_t bits = in.required_integer(key, 1, 64);
  if (bits != 4 && !(eight && bits == 8))
    unsupported_config(in.source(), key, std::to_string(bits), eight ? "4 or 8" : "4");
  return static_cast<int>(bits);
}

void want(const JsonReader& in, const char* key, const std::string& got,
          std::initializer_list<const char*> known) {
  if (std::find(known.begin(), known.end(), got) != known.end()) return;
  std::string text;
  for (const char* one : known) text += (text.empty() ? "" : ", ") + std::string(one);
  unsupported_config(in.source(), key, got, text);
}

void check_group(const Json& group, const std::string& source) {
  if (!group.is_object()) corrupt_config(source + " is not an object");
  const JsonReader in(group, source);
  const Json* weights = in.object("weights");
  if (!weights) return;  // this group quantizes only activations
  const JsonReader of(*weights, source + ".weights");
  want(of, "type", of.string("type").value_or("int"), {"int"});
  want(of, "strategy", of.string("strategy").value_or("tensor"), {"tensor", "channel", "group"});
  read_bits(of, "num_bits", true);
  if (in.has("input_activations"))
    log(LogLevel::info,
        source + ": only weights are quantized; activations stay in floating point");
}

StoredConfig read_compressed(const JsonReader& in) {
  want(in, "format", in.string("format").value_or(""),
       {"pack-quantized", "int-quantized", "naive-quantized", "mixed-precision"});
  const Json* groups = in.object("config_groups");
  if (!groups) corrupt_config(in.source() + " has no config_groups");
  for (const auto& [name, group] : groups->items())
    check_group(group, in.source() + ".config_groups." + quoted_text(name));
  if (const Json* sparsity = in.object("sparsity_config")) {
    const JsonReader of(*sparsity, in.source() + ".sparsity_config");
    want(of, "format", of.string("format").value_or("dense"), {"dense"});
  }
  return {StoredFormat::compressed, 0};
}

}  // namespace

StoredConfig stored_config(const Json& object, const std::string& source) {
  const char* key = "quantization_config";
  const JsonReader outer(object, source);
  const Json* given = outer.object(key);
  if (!given) return {};
  const JsonReader in(*given, source + ": " + key);
  const std::string method = in.string("quant_method").value_or("");
  want(in, "quant_method", method, {"gptq", "awq", "compressed-tensors"});
  if (outer.string("model_type") == "gpt2")
    unsupported_config(source, key, method,
                       "an unquantized GPT-2 checkpoint, because GPT-2 stores transposed matrices");
  if (method == "compressed-tensors") return read_compressed(in);
  if (method == "awq") {
    want(in, "version", in.string("version").value_or("gemm"), {"gemm"});
    return {StoredFormat::awq, read_bits(in, "bits", false)};
  }
  const char* form = in.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = in.string(form).value_or("gptq");
  want(in, form, format, {"gptq", "gptq_v2"});
  return {format == "gptq" ? StoredFormat::gptq : StoredFormat::gptq_v2,
          read_bits(in, "bits", true)};
}

StoredConfig read_stored_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  return stored_config(read_json_object(path), path.string());
}

}  // namespace anyaccel::llm
