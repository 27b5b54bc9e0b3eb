// RoPE settings, in all forms that config.json has used over time (transformers'
// modeling_rope_utils).
#include <cmath>
#include <utility>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

// Maximum scaling factor. It keeps the context length (a size times this factor) within the range
// of integers that a double represents exactly.
constexpr double kMaxFactor = 65536;

constexpr std::pair<const char*, RopeType> kTypes[] = {
    {"default", RopeType::standard}, {"linear", RopeType::linear}, {"dynamic", RopeType::dynamic},
    {"llama3", RopeType::llama3},    {"yarn", RopeType::yarn},     {"longrope", RopeType::longrope},
    {"su", RopeType::longrope}};  // name in the first Phi-3 files

double positive(const JsonReader& in, const char* key, double otherwise) {
  const double value = in.number(key).value_or(otherwise);
  if (!(value > 0)) corrupt_config(in.source() + ": " + key + " must be above 0");
  return value;
}

void read_llama3(const JsonReader& in, RopeConfig& rope) {
  rope.low_freq_factor = in.number("low_freq_factor").value_or(1.0);
  rope.high_freq_factor = in.number("high_freq_factor").value_or(4.0);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    corrupt_config(in.source() + ": high_freq_factor must be above low_freq_factor");
  }
}

double yarn_scale(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

void read_yarn(const JsonReader& in, RopeConfig& rope) {
  rope.beta_fast = positive(in, "beta_fast", 32);
  rope.beta_slow = positive(in, "beta_slow", 1);
  rope.truncate = in.boolean("truncate").value_or(true);
  const double scale = in.number("mscale").value_or(0);
  const double all = in.number("mscale_all_dim").value_or(0);
  rope.attention_factor = scale != 0 && all != 0
                              ? yarn_scale(rope.factor, scale) / yarn_scale(rope.factor, all)
                              : yarn_scale(rope.factor, 1);
}

std::vector<double> read_factors(const JsonReader& in, const Json& object, const char* key,
                                 std::size_t pairs) {
  const std::string want = ": rope type longrope requires \"" + std::string(key) + "\" with " +
                           std::to_string(pairs) + " numbers above 0";
  if (!in.has(key) || !object[key].is_array() || object[key].size() != pairs)
    corrupt_config(in.source() + want);
  std::vector<double> out;
  for (const Json& item : object[key]) {
    out.push_back(item.is_number() ? item.get<double>() : 0);
    if (!(std::isfinite(out.back()) && out.back() > 0)) corrupt_config(in.source() + want);
  }
  return out;
}

void read_longrope(const JsonReader& in, const Json& object, RopeConfig& rope,
                   const ModelConfig& config) {
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(config.head_dim) * rope.partial);
  rope.short_factor =
      read_factors(in, object, "short_factor", static_cast<std::size_t>(rotated / 2));
  rope.long_factor = read_factors(in, object, "long_factor", static_cast<std::size_t>(rotated / 2));
  const auto original = static_cast<double>(rope.original_max_positions);
  const double factor =
      in.has("factor") ? rope.factor : static_cast<double>(config.max_positions) / original;
  if (factor > 1 && original > 1)
    rope.attention_factor = std::sqrt(1 + std::log(factor) / std::log(original));
}

void read_scaling(const JsonReader& outer, const JsonReader& in, const Json& object,
                  RopeConfig& rope, const ModelConfig& config, std::int64_t original_positions) {
  // "type" is the key in files written before transformers 4.43.
  const std::string type = in.string("rope_type").value_or(in.string("type").value_or("default"));
  bool known = false;
  for (const auto& [name, value] : kTypes) {
    if (type == name) {
      rope.type = value;
      known = true;
    }
  }
  if (!known) {
    unsupported_config(outer.source(), "rope type", type,
                       "default, linear, dynamic, llama3, yarn or longrope");
  }
  if (rope.type == RopeType::standard) return;
  const auto factor = in.number("factor");
  const bool needed = rope.type != RopeType::longrope;
  if (factor ? *factor < 1.0 || *factor > kMaxFactor : needed) {
    corrupt_config(outer.source() + ": rope type " + quoted_text(type) +
                   " requires a \"factor\" from 1 to 65536");
  }
  rope.factor = factor.value_or(1.0);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  // As in transformers, the top-level value takes precedence over the value in the rope object. So
  // does the default of a family that has one.
  const std::int64_t inside = in.integer(kOriginal, 1, kMaxSize).value_or(config.max_positions);
  rope.original_max_positions = outer.integer(kOriginal, 1, kMaxSize)
                                    .value_or(original_positions > 0 ? original_positions : inside);
  if (rope.type == RopeType::llama3) read_llama3(in, rope);
  if (rope.type == RopeType::yarn) read_yarn(in, rope);
  if (rope.type == RopeType::longrope) read_longrope(in, object, rope, config);
  if (rope.type == RopeType::yarn || rope.type == RopeType::longrope) {
    rope.attention_factor = positive(in, "attention_factor", rope.attention_factor);
  }
}

}  // namespace

RopeConfig read_rope(const JsonReader& in, const ModelConfig& config,
                     const FamilyDefaults& defaults) {
  RopeConfig rope;
  rope.theta = in.number("rope_theta").value_or(defaults.rope_theta);
  rope.partial = in.number("partial_rotary_factor").value_or(1.0);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (const Json* object = in.object(key)) {
      // Families whose sliding-window layers use different RoPE settings have one entry per layer
      // type.
      const JsonReader outer(*object, in.source() + ", " + key);
      if (object->contains("full_attention")) object = outer.object("full_attention");
      if (!object) break;
      const JsonReader parameters(*object, outer.source());
      rope.theta = parameters.number("rope_theta").value_or(rope.theta);
      rope.partial = parameters.number("partial_rotary_factor").value_or(rope.partial);
      if (!(rope.partial > 0 && rope.partial <= 1)) {
        corrupt_config(in.source() + ": partial_rotary_factor must be above 0 and at most 1");
      }
      read_scaling(in, parameters, *object, rope, config, defaults.original_positions);
      break;
    }
  }
  return rope;
}

}  // namespace anyaccel::llm
