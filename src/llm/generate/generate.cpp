#include "anyaccel/llm/generate.h"

#include <c10/core/GradMode.h>

#include "base/untrusted_text.h"
#include "llm/generate/drafter.h"
#include "llm/generate/generation.h"
#include "llm/generate/sequence.h"
#include "llm/model/state.h"
#include "llm/parallel/shards.h"

namespace anyaccel::llm {

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::length: return "length";
    case FinishReason::context: return "context";
    case FinishReason::end_of_text: return "end_of_text";
    case FinishReason::stop: return "stop";
    case FinishReason::interrupted: return "interrupted";
  }
  return "unknown";
}

struct Generator::Data {
  Sequence sequence;
  const Tokenizer* tokenizer;
};

Generator::Generator(Model model, const Tokenizer* tokenizer)
    : data_(std::make_unique<Data>(Data{Sequence(std::move(model)), tokenizer})) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

GenerateResult Generator::generate(const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options,
                                   const std::function<void(std::string_view)>& on_text,
                                   StopCondition stop) {
  const c10::AutoGradMode no_gradient(false);
  Sequence& sequence = data_->sequence;
  const Model& model = sequence.model();
  if (options.speculation.draft && model.ranks() > 1) {
    throw Error(ErrorCode::unsupported, "generate",
                {.what = "a draft model is not supported with a model that is split across ranks",
                 .hint = "use prompt lookup or a single rank"});
  }
  Drafter guesser(options.speculation);
  Generation answer(model.config(), data_->tokenizer, prompt, options, on_text);
  if (answer.ended()) return answer.finish();
  const std::int64_t cached =
      sequence.begin(prompt, static_cast<std::int64_t>(prompt.size()) + answer.left());
  answer.result().cached_tokens = cached;
  Shards* shards = model.state()->weights.shards.get();
  const auto wanted_to_stop = [&] {
    const bool stopped = stop.stop_requested();
    return stop.stop_possible() && shards ? shards->any(stopped) : stopped;
  };
  at::Tensor logits = sequence.append(
      std::span<const std::int64_t>(prompt).subspan(static_cast<std::size_t>(cached)), true);
  std::vector<std::int64_t> guesses;
  while (true) {
    // The pass returns one more row of logits than there are draft tokens. Each token is chosen
    // from the model's logits. The next row is valid as long as the chosen tokens equal the draft
    // tokens.
    bool agree = true;
    for (std::size_t row = 0; agree && !answer.ended(); ++row) {
      const std::int64_t id = answer.take(row_of(logits, static_cast<std::int64_t>(row)));
      agree = row < guesses.size() && guesses[row] == id;
      if (agree) ++answer.result().accepted;
      if (!answer.ended() && wanted_to_stop()) answer.interrupt();
    }
    const auto length = static_cast<std::int64_t>(answer.history().size());
    sequence.truncate(std::min(sequence.length(), length - 1));
    if (answer.ended()) return answer.finish();
    guesses = guesser.guess(model.config(), answer.history(), answer.left() - 1, answer.sampler());
    answer.result().drafted += static_cast<std::int64_t>(guesses.size());
    std::vector<std::int64_t> next = {answer.history().back()};
    next.insert(next.end(), guesses.begin(), guesses.end());
    logits = sequence.append(next, false);
  }
}

GenerateResult generate(const Model& model, const Tokenizer* tokenizer,
                        const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
                        const std::function<void(std::string_view)>& on_text, StopCondition stop) {
  return Generator(model, tokenizer).generate(prompt, options, on_text, stop);
}

void check_draft_tokenizer(const Tokenizer& model, const Tokenizer& draft) {
  const auto fail = [](const std::string& what, const std::string& got, const std::string& want) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = what,
                 .got = got,
                 .want = want,
                 .hint = "use a draft model with the same tokenizer"});
  };
  if (model.size() != draft.size()) {
    fail("the draft model has a different vocabulary", std::to_string(draft.size()) + " tokens",
         std::to_string(model.size()) + " tokens");
  }
  for (std::int64_t id = 0; id < model.size(); ++id) {
    const std::string got = draft.token_bytes(id);
    const std::string want = model.token_bytes(id);
    if (got != want) {
      fail("the draft model has a different vocabulary",
           quoted_text(got) + " as token " + std::to_string(id), quoted_text(want));
    }
  }
}

}  // namespace anyaccel::llm
