// One sequence as it is generated.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "anyaccel/llm/generate.h"
#include "llm/generate/sampler.h"
#include "llm/generate/text_stream.h"

namespace anyaccel::llm {

/// Takes tokens from logits until there is a reason to end. Not thread-safe; `tokenizer` lives as
/// long.
class Generation {
 public:
  /// Time counts from here. Throws as generate() does for prompt and options.
  Generation(const ModelConfig& config, const Tokenizer* tokenizer,
             const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
             const std::function<void(std::string_view)>& on_text);

  /// Chooses a token after history() and returns it. Not after it ended.
  std::int64_t take(std::span<const float> logits);
  /// Ends it, when it has not ended.
  void interrupt();
  bool ended() const noexcept { return ended_; }
  /// So many tokens may still come.
  std::int64_t left() const noexcept {
    return limit_ - static_cast<std::int64_t>(result_.ids.size());
  }
  /// The prompt and what was taken.
  const std::vector<std::int64_t>& history() const noexcept { return history_; }
  const Sampler& sampler() const noexcept { return sampler_; }
  /// What is told of it beside text and tokens.
  GenerateResult& result() noexcept { return result_; }
  /// Call once, at the end.
  GenerateResult finish();

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<std::int64_t> end_ids_;
  const Tokenizer* tokenizer_;
  Sampler sampler_;
  TextStream text_;
  std::vector<std::int64_t> history_;
  std::int64_t limit_;
  bool ended_;
  GenerateResult result_;
  Clock::time_point begin_ = Clock::now(), first_ = begin_;
};

}  // namespace anyaccel::llm
