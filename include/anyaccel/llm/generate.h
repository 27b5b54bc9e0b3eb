// Text generation with a language model.
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

/// Sampling options, with the same meaning as in transformers and applied in the same order:
/// repetition penalty, temperature, top-k, top-p (nucleus sampling, Holtzman et al.,
/// arXiv:1904.09751), min-p.
struct SamplingOptions {
  double temperature = 1.0;  ///< 0: always the most likely token (greedy)
  std::int64_t top_k = 0;    ///< number of most likely tokens to keep; 0: all
  /// Keep the smallest set of most likely tokens whose total probability is at least this.
  double top_p = 1.0;
  /// Keep tokens whose probability is at least this fraction of the most likely token's.
  double min_p = 0.0;
  double repetition_penalty = 1.0;  ///< above 1: tokens that occurred before become less likely
  std::uint64_t seed = 0;           ///< the same seed samples the same tokens on every accelerator
};

/// Read the sampling options from a folder's generation_config.json, or from config.json if
/// generation_config.json does not exist. As in transformers, the temperature is 0 without
/// `do_sample`, and top_k defaults to 50. Returns SamplingOptions{} if
/// neither file contains sampling options. Logs a warning for unsupported
/// options (beams, n-grams, suppressed tokens). Throws `corrupt` with the file and key.
ANYACCEL_API SamplingOptions sampling_defaults(const std::filesystem::path& folder);

/// Speculative decoding (Leviathan et al., arXiv:2211.17192): a drafter proposes several tokens,
/// and the model verifies them in one forward pass. Tokens are sampled from the model's own logits
/// with the same random numbers as without speculation, so the text is normally the same. Logits
/// round differently in a pass with several rows, which can swap two tokens of almost equal
/// probability.
struct Speculation {
  std::int64_t tokens = 0;  ///< maximum number of tokens proposed per pass; 0: off
  /// Model that proposes tokens. It must have the same vocabulary as the model. Empty: propose the
  /// tokens that followed an earlier occurrence of the last few tokens (prompt lookup).
  std::optional<Model> draft;
};

/// Check that a draft model has the same tokenizer as the model. Throws `invalid_argument` with the
/// first token id that differs.
ANYACCEL_API void check_draft_tokenizer(const Tokenizer& model, const Tokenizer& draft);

/// Options for generate().
struct GenerateOptions {
  /// Maximum number of generated tokens.
  std::int64_t max_new_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stop;  ///< stop strings; the text ends before the first one that occurs
  Speculation speculation;
};

/// Reason why generation ended: `max_new_tokens`, the model's context length, an end-of-text token,
/// a stop string, or a requested stop.
enum class FinishReason { length, context, end_of_text, stop, interrupted };
/// Return "length", "context", "end_of_text", "stop" or "interrupted".
ANYACCEL_API const char* to_string(FinishReason reason) noexcept;

/// Generated text, with statistics.
struct GenerateResult {
  std::string text;  ///< generated text, excluding the prompt; empty if there is no tokenizer
  std::vector<std::int64_t> ids;  ///< generated token ids, excluding an end-of-text token
  FinishReason finish = FinishReason::length;
  /// Number of prompt tokens.
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< number of prompt tokens found in a Generator's KV cache
  std::int64_t drafted = 0;        ///< number of tokens that a drafter proposed
  std::int64_t accepted = 0;       ///< number of proposed tokens that the model accepted
  double prefill_seconds = 0;      ///< time until the first token's logits
  double first_token_seconds = 0;  ///< time until the first token was chosen
  double decode_seconds = 0;       ///< time after the first token's logits
};

/// Generate a continuation of `prompt`.
///
/// `tokenizer`: may be null; the result then has no text, and stop strings throw
/// `invalid_argument`. `on_text`: receives the text in chunks of complete UTF-8 characters, as soon
/// as they cannot be part of a stop string. `stop`: if it requests a stop, generation ends with
/// FinishReason::interrupted.
///
/// Throws `invalid_argument` for an empty prompt, unknown ids, a prompt longer than the context, or
/// out-of-range options, and `unsupported` for a draft model if the model is split across several
/// ranks.
///
///     const auto model = Model::load(folder);
///     const auto tokenizer = Tokenizer::load(folder);
///     const auto result = generate(model, &tokenizer, tokenizer.encode("Once upon a time"),
///                                  {.max_new_tokens = 64, .sampling = sampling_defaults(folder)});
///     std::cout << result.text;
ANYACCEL_API GenerateResult generate(const Model& model, const Tokenizer* tokenizer,
                                     const std::vector<std::int64_t>& prompt,
                                     const GenerateOptions& options,
                                     const std::function<void(std::string_view)>& on_text = {},
                                     StopCondition stop = {});

/// Runs several generations with one model and keeps the KV cache between them. If a prompt begins
/// with the previous prompt and answer, as in a conversation, only the new tokens are computed.
/// Shares the model's weights. Not thread-safe.
class ANYACCEL_API Generator {
 public:
  /// Create a generator. `tokenizer`: may be null; otherwise it must outlive the generator.
  explicit Generator(Model model, const Tokenizer* tokenizer = nullptr);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  /// Generate a continuation of `prompt`. See the free function generate().
  GenerateResult generate(const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
                          const std::function<void(std::string_view)>& on_text = {},
                          StopCondition stop = {});

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

/// Result for one prompt in a batch: a generation or an error.
struct BatchResult {
  GenerateResult result;
  std::optional<Error> error;
};

/// Generate a continuation for each prompt, with up to `batch_size` prompts per forward pass. When
/// one finishes, the next prompt takes its place. With `batch_size` 1, or with speculation, the
/// prompts run sequentially, as with a Generator.
///
/// `on_result`: receives the index and result of each prompt, in prompt order. `stop`: if it
/// requests a stop, prompts in progress end as `interrupted`, and prompts that have not started get
/// no result.
///
/// Prompt i uses the seed `options.sampling.seed` + i, so its text does not depend on the other
/// prompts, except that logits are rounded differently for different numbers of rows in a pass. The
/// op `inference_decode` computes bit-identical results for a prompt alone and in a batch.
///
/// Throws `invalid_argument` for out-of-range options. If a single prompt fails, its result
/// contains the error.
ANYACCEL_API void generate_batch(const Model& model, const Tokenizer* tokenizer,
                                 const std::vector<std::vector<std::int64_t>>& prompts,
                                 const GenerateOptions& options, std::int64_t batch_size,
                                 const std::function<void(std::size_t, BatchResult)>& on_result,
                                 StopCondition stop = {});

}  // namespace anyaccel::llm
