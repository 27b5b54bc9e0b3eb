#include "llm/generate/generation.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "llm/model/state.h"

namespace anyaccel::llm {

namespace {

using Seconds = std::chrono::duration<double>;

void check(const Tokenizer* tokenizer, const GenerateOptions& options) {
  if (options.max_new_tokens < 0) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "option max-new-tokens is out of range",
                 .got = std::to_string(options.max_new_tokens),
                 .want = "0 or more"});
  }
  if (!tokenizer && !options.stop.empty()) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "stop strings require a tokenizer"});
  }
}

}  // namespace

Generation::Generation(const ModelConfig& config, const Tokenizer* tokenizer,
                       const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
                       const std::function<void(std::string_view)>& on_text)
    : end_ids_(config.eos_token_ids),
      tokenizer_(tokenizer),
      sampler_(options.sampling),
      text_(options.stop, on_text),
      history_(prompt) {
  check(tokenizer, options);
  check_ids(config, prompt, "generate");
  const auto size = static_cast<std::int64_t>(prompt.size());
  limit_ = std::min(options.max_new_tokens, config.context_length() - size);
  ended_ = limit_ == 0;
  result_.prompt_tokens = size;
  result_.finish = limit_ < options.max_new_tokens ? FinishReason::context : FinishReason::length;
}

std::int64_t Generation::take(std::span<const float> logits) {
  const bool first = first_ == begin_;
  if (first) result_.prefill_seconds = Seconds((first_ = Clock::now()) - begin_).count();
  const std::int64_t id = sampler_.choose(logits, history_);
  if (first) result_.first_token_seconds = Seconds(Clock::now() - begin_).count();
  history_.push_back(id);
  if (std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end()) {
    result_.finish = FinishReason::end_of_text;
    ended_ = true;
    return id;
  }
  result_.ids.push_back(id);
  if (tokenizer_ && text_.push(tokenizer_->token_bytes(id))) {
    result_.finish = FinishReason::stop;
    ended_ = true;
  } else if (left() == 0) {
    ended_ = true;
  }
  return id;
}

void Generation::interrupt() {
  result_.finish = FinishReason::interrupted;
  ended_ = true;
}

GenerateResult Generation::finish() {
  if (result_.finish != FinishReason::stop) text_.finish();
  result_.text = text_.text();
  result_.decode_seconds = Seconds(Clock::now() - first_).count();
  return std::move(result_);
}

}  // namespace anyaccel::llm
