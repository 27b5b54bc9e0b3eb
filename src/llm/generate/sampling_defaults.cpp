// A checkpoint's default sampling options.
#include <algorithm>
#include <iterator>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/llm/generate.h"
#include "base/log.h"
#include "llm/generate/sampler.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

constexpr std::int64_t kMaxTopK = std::int64_t{1} << 31;
constexpr std::int64_t kUsualTopK = 50;  // transformers' default

constexpr const char* kKeys[] = {"do_sample", "temperature", "top_k",
                                 "top_p",     "min_p",       "repetition_penalty"};

/// Warns about options that would change the generated text but are unsupported.
void warn_of_the_rest(const JsonReader& in, const Json& object) {
  const std::pair<const char*, Json> harmless[] = {{"num_beams", 1},
                                                   {"no_repeat_ngram_size", 0},
                                                   {"encoder_repetition_penalty", 1.0},
                                                   {"typical_p", 1.0},
                                                   {"top_h", nullptr},
                                                   {"epsilon_cutoff", 0.0},
                                                   {"eta_cutoff", 0.0},
                                                   {"penalty_alpha", 0.0},
                                                   {"min_length", 0},
                                                   {"min_new_tokens", 0},
                                                   {"bad_words_ids", Json::array()},
                                                   {"suppress_tokens", Json::array()},
                                                   {"begin_suppress_tokens", Json::array()},
                                                   {"sequence_bias", Json::object()},
                                                   {"exponential_decay_length_penalty", nullptr},
                                                   {"forced_bos_token_id", nullptr},
                                                   {"forced_eos_token_id", nullptr}};
  std::string ignored;
  for (const auto& [key, value] : harmless) {
    if (in.has(key) && object[key] != value)
      ignored += (ignored.empty() ? "" : ", ") + std::string(key);
  }
  if (!ignored.empty())
    log(LogLevel::warning, in.source() + ": ignoring unsupported options: " + ignored);
}

}  // namespace

SamplingOptions sampling_defaults(const std::filesystem::path& folder) {
  auto path = folder / "generation_config.json";
  std::error_code ignored;
  const bool own_file = std::filesystem::exists(path, ignored);
  // Older checkpoints store the options here.
  if (!own_file) path = folder / "config.json";
  if (!own_file && !std::filesystem::exists(path, ignored)) return {};
  const Json object = read_json_object(path);
  const JsonReader in(object, path.string());
  const auto says = [&](const char* key) { return in.has(key); };
  if (!own_file && std::none_of(std::begin(kKeys), std::end(kKeys), says)) return {};
  SamplingOptions options;
  const double temperature = in.number("temperature").value_or(1.0);
  options.temperature = in.boolean("do_sample").value_or(false) ? temperature : 0.0;
  options.top_k = in.integer("top_k", 0, kMaxTopK).value_or(kUsualTopK);
  options.top_p = in.number("top_p").value_or(1.0);
  options.min_p = in.number("min_p").value_or(0.0);
  options.repetition_penalty = in.number("repetition_penalty").value_or(1.0);
  try {
    const Sampler checked(options);
  } catch (const Error& error) {
    throw Error(ErrorCode::corrupt, "sampling_defaults",
                {.what = path.string() + ": " + error.what()});
  }
  warn_of_the_rest(in, object);
  return options;
}

}  // namespace anyaccel::llm
