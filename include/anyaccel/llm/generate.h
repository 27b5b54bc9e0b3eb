// Continuing a sequence with a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/error.h"
#include "anyaccel/export.h"
#include "anyaccel/llm/model.h"
#include "anyaccel/llm/stop_condition.h"
#include "anyaccel/llm/tokenizer.h"

namespace anyaccel::llm {

/// How tokens are chosen, with transformers' meanings and order: repetition penalty, temperature,
/// top-k, top-p, min-p.
struct SamplingOptions {
  double temperature = 1.0;         ///< 0: always the likeliest token
  std::int64_t top_k = 0;           ///< keep so many; 0: all
  double top_p = 1.0;               ///< keep the likeliest that sum up to this
  double min_p = 0.0;               ///< keep what has this share of the likeliest one's probability
  double repetition_penalty = 1.0;  ///< above 1: tokens that were there already get less likely
  std::uint64_t seed = 0;           ///< the same seed draws the same tokens, on every accelerator
};

/// What generation_config.json of a folder says, or without such a file config.json, as
/// transformers reads it: without `do_sample` the likeliest token is taken (temperature 0), and
/// where top_k is left out it is 50. SamplingOptions{} where neither says anything of these. What
/// the file asks for and is not there (beams, n-grams, suppressed tokens) is named in a warning.
/// Throws `corrupt` naming file and key.
ANYACCEL_API SamplingOptions sampling_defaults(const std::filesystem::path& folder);

/// Guessing several tokens, which the model then checks in one pass. Tokens are chosen from the
/// model's own logits by the draws that would choose them one by one, so the text is the same;
/// where logits of one and of several rows are rounded differently, two tokens that are almost
/// equally likely may change places.
struct Speculation {
  std::int64_t tokens = 0;     ///< guessed at a time, at most; 0: none
  std::optional<Model> draft;  ///< guesses, with the model's vocabulary; none: what followed the
                               ///< same few tokens earlier
};

/// Throws `invalid_argument` naming the first id that means something else: a draft model must have
/// the model's tokenizer.
ANYACCEL_API void check_draft_tokenizer(const Tokenizer& model, const Tokenizer& draft);

struct GenerateOptions {
  std::int64_t max_new_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stop;  ///< generation ends in front of the first of these
  Speculation speculation;
};

enum class FinishReason { length, context, end_of_text, stop, interrupted };
/// "length", "context", "end_of_text", "stop", "interrupted".
ANYACCEL_API const char* to_string(FinishReason reason) noexcept;

struct GenerateResult {
  std::string text;               ///< generated, without the prompt; empty without tokenizer
  std::vector<std::int64_t> ids;  ///< generated; an end-of-text token is not among them
  FinishReason finish = FinishReason::length;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of the prompt, which a Generator had computed before
  std::int64_t drafted = 0;        ///< tokens that were guessed
  std::int64_t accepted = 0;       ///< of these, the model's own
  double prefill_seconds = 0;      ///< until the first token's logits
  double first_token_seconds = 0;  ///< until the first token was chosen
  double decode_seconds = 0;       ///< all that followed the first token's logits
};

/// Generates after `prompt`. `tokenizer` may be null: then there is no text and stop strings are
/// `invalid_argument`. `on_text` gets the text in pieces of whole UTF-8 characters, as soon as no
/// stop string can begin in them; When `stop` requests it, generation ends with
/// FinishReason::interrupted. Throws `invalid_argument` for an empty prompt, unknown ids, a prompt
/// that is longer than the context, or options out of range.
ANYACCEL_API GenerateResult generate(const Model& model, const Tokenizer* tokenizer,
                                     const std::vector<std::int64_t>& prompt,
                                     const GenerateOptions& options,
                                     const std::function<void(std::string_view)>& on_text = {},
                                     StopCondition stop = {});

/// The same with one model again and again. What the last prompt and answer computed is kept: a
/// prompt that begins as they do, as a conversation's next one, costs only what is new. Copies
/// nothing but the model's handle. Not thread-safe.
class ANYACCEL_API Generator {
 public:
  /// `tokenizer` may be null, and otherwise lives as long.
  explicit Generator(Model model, const Tokenizer* tokenizer = nullptr);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  /// As the function of the same name.
  GenerateResult generate(const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
                          const std::function<void(std::string_view)>& on_text = {},
                          StopCondition stop = {});

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

/// What came of one of several prompts: a result, or why there is none.
struct BatchResult {
  GenerateResult result;
  std::optional<Error> error;
};

/// Generates after each of several prompts, up to `batch_size` of them in each pass of the model; a
/// new one begins when one ends. Prompt i draws with the seed `options.sampling.seed` + i, so its
/// text does not depend on the others, apart from how logits of more rows are rounded; with the op
/// `inference_decode`, they have the same bits. `on_result` gets each prompt's number and result,
/// in the order of the prompts. When a stop is requested, prompts in progress end as `interrupted`,
/// and prompts that have not begun get no result. With `batch_size` 1, or with speculation, one
/// prompt follows the other as with a Generator. Throws for what is wrong with the options; what is
/// wrong with a prompt is its result's error.
ANYACCEL_API void generate_batch(const Model& model, const Tokenizer* tokenizer,
                                 const std::vector<std::vector<std::int64_t>>& prompts,
                                 const GenerateOptions& options, std::int64_t batch_size,
                                 const std::function<void(std::size_t, BatchResult)>& on_result,
                                 StopCondition stop = {});

}  // namespace anyaccel::llm
