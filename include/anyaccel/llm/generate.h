// Continuing a sequence with a model.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/llm/model.h"
#include "anyaccel/llm/tokenizer.h"

namespace anyaccel::llm {

/// How tokens are chosen, with transformers' meanings and order: repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  double temperature = 1.0;         ///< 0: always the likeliest token
  std::int64_t top_k = 0;           ///< keep so many; 0: all
  double top_p = 1.0;               ///< keep the likeliest that sum up to this
  double min_p = 0.0;               ///< keep what has this share of the likeliest one's probability
  double repetition_penalty = 1.0;  ///< above 1: tokens that were there already get less likely
  std::uint64_t seed = 0;           ///< the same seed draws the same tokens, on every accelerator
};

struct GenerateOptions {
  std::int64_t max_new_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stop;  ///< generation ends in front of the first of these
};

enum class FinishReason { length, context, end_of_text, stop, interrupted };
/// "length", "context", "end_of_text", "stop", "interrupted".
const char* to_string(FinishReason reason) noexcept;

struct GenerateResult {
  std::string text;               ///< generated, without the prompt; empty without tokenizer
  std::vector<std::int64_t> ids;  ///< generated; an end-of-text token is not among them
  FinishReason finish = FinishReason::length;
  std::int64_t prompt_tokens = 0;
  double prefill_seconds = 0;  ///< until the first token's logits
  double decode_seconds = 0;   ///< all that followed
};

/// Generates after `prompt`. `tokenizer` may be null: then there is no text and stop strings are `invalid_argument`.
/// `on_text` gets the text in pieces of whole UTF-8 characters, as soon as no stop string can begin in them;
/// `stop` ends generation when it becomes true. Throws `invalid_argument` for an empty prompt, unknown ids, a prompt that
/// is longer than the context, or options out of range.
GenerateResult generate(const Model& model, const Tokenizer* tokenizer, const std::vector<std::int64_t>& prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text = {},
                        const std::atomic<bool>* stop = nullptr);

}  // namespace anyaccel::llm
