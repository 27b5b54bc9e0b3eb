#include "llm/train/options.h"

#include <cmath>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "llm/data/corpus.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anyaccel::llm {

namespace {

void check(bool good, const char* option, const std::string& got, const char* want) {
  if (good) return;
  throw Error(
      ErrorCode::invalid_argument, "train",
      {.what = std::string("option ") + option + " is out of range", .got = got, .want = want});
}

}  // namespace

ModelConfig demo_model() {
  ModelConfig config;
  config.hidden_size = 320;
  config.intermediate_size = 864;
  config.num_layers = 2;
  config.num_heads = config.num_kv_heads = 5;
  config.head_dim = 64;
  config.max_positions = 128;
  config.initializer_range = 0.05;
  config.rope.theta = 300;
  complete_model(config);
  return config;
}

void check_options(const TrainOptions& options) {
  check(!options.steps || *options.steps > 0, "steps", std::to_string(options.steps.value_or(0)),
        "1 or more");
  const double minutes = options.minutes.value_or(1.0);
  check(std::isfinite(minutes) && minutes > 0, "minutes", std::to_string(minutes), "above 0");
  check(options.min_steps >= 0, "min-steps", std::to_string(options.min_steps), "0 or more");
  check(options.batch_size > 0, "batch-size", std::to_string(options.batch_size), "1 or more");
  check(options.vocab_size >= kByteVocabulary && options.vocab_size <= kMaxVocabulary, "vocab-size",
        std::to_string(options.vocab_size), "257 (bytes) to 65536");
  check(options.bucket_cap_mb > 0 && options.bucket_cap_mb <= 1 << 20, "bucket-cap-mb",
        std::to_string(options.bucket_cap_mb), "a number above 0 and at most 1048576");
  check(options.lr > 0 && options.lr < 10, "lr", std::to_string(options.lr), "above 0, below 10");
  check(options.warmup >= 0 && options.warmup < 1, "warmup", std::to_string(options.warmup),
        "a number of at least 0 and below 1");
  check(options.weight_decay >= 0, "weight-decay", std::to_string(options.weight_decay),
        "0 or more");
  check(options.clip > 0, "clip", std::to_string(options.clip), "above 0");
  check(options.dropout >= 0 && options.dropout < 1, "dropout", std::to_string(options.dropout),
        "a number of at least 0 and below 1");
  check(options.save_every >= 0, "save-every", std::to_string(options.save_every), "0 or more");
  check(options.held_out_tokens >= 0, "held-out-tokens", std::to_string(options.held_out_tokens),
        "0 or more");
  const bool known = options.dtype == c10::kFloat || options.dtype == c10::kBFloat16 ||
                     options.dtype == c10::kHalf;
  check(known, "dtype", dtype_name(options.dtype), "fp32, bf16 or fp16");
}

void complete_model(ModelConfig& config) {
  config.vocab_size = kByteVocabulary;
  config.bos_token_id = kEndOfText;
  config.eos_token_ids = {kEndOfText};
  config.check();
}

}  // namespace anyaccel::llm
