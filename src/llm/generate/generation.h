// State of one sequence during generation.
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

/// Chooses tokens from logits until a finish reason applies. Not thread-safe. `tokenizer` must
/// outlive this object.
class Generation {
 public:
  /// Starts the clock. Throws the same errors as generate() for invalid prompts and options.
  Generation(const ModelConfig& config, const Tokenizer* tokenizer,
             const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
             const std::function<void(std::string_view)>& on_text);

  /// Chooses the token after history() and returns it. Must not be called after the generation has
  /// ended.
  std::int64_t take(std::span<const float> logits);
  /// Stops the generation with FinishReason::interrupted. Must not be called after the generation
  /// has ended.
  void interrupt();
  bool ended() const noexcept { return ended_; }
  /// Maximum number of tokens that may still be generated.
  std::int64_t left() const noexcept {
    return limit_ - static_cast<std::int64_t>(result_.ids.size());
  }
  /// The prompt and the generated tokens.
  const std::vector<std::int64_t>& history() const noexcept { return history_; }
  const Sampler& sampler() const noexcept { return sampler_; }
  /// The result, to which callers can add statistics.
  GenerateResult& result() noexcept { return result_; }
  /// Returns the result. Must be called once, at the end.
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
