#include "anyaccel/llm/generate.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>

#include "anyaccel/accelerator.h"
#include "llm/generate/sampler.h"
#include "llm/generate/text_stream.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"

namespace anyaccel::llm {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::span<const float> host_values(const at::Tensor& host) {
  return {host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())};
}

}  // namespace

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

GenerateResult generate(const Model& model, const Tokenizer* tokenizer, const std::vector<std::int64_t>& prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
                        const std::atomic<bool>* stop) {
  if (options.max_new_tokens < 0) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "option max-new-tokens is out of range",
                 .got = std::to_string(options.max_new_tokens),
                 .want = "0 or more"});
  }
  if (!tokenizer && !options.stop.empty()) {
    throw Error(ErrorCode::invalid_argument, "generate", {.what = "stop strings need a tokenizer"});
  }
  const c10::AutoGradMode no_gradient(false);
  ModelState& state = *model.state();
  const ModelConfig& config = state.config;
  Sampler sampler(options.sampling);
  at::Tensor input = ids_on_device(config, prompt, "generate");
  const auto prompt_size = static_cast<std::int64_t>(prompt.size());
  const std::int64_t room = config.context_length() - prompt_size;
  const std::int64_t limit = std::min(options.max_new_tokens, room);

  GenerateResult result;
  result.prompt_tokens = prompt_size;
  result.finish = limit < options.max_new_tokens ? FinishReason::context : FinishReason::length;
  TextStream text(options.stop, on_text);
  KvCache cache(config, 1, prompt_size + limit, state.dtype);
  std::vector<std::int64_t> history = prompt;
  auto begin = Clock::now();
  for (std::int64_t i = 0; i < limit; ++i) {
    const at::Tensor logits = llama_forward(state.weights, config, state.rope, input, &cache, /*last_only=*/true)
                                  .to(c10::Device(c10::kCPU), c10::kFloat)
                                  .contiguous();
    if (i == 0) {
      result.prefill_seconds = seconds_since(begin);
      begin = Clock::now();
    }
    const std::int64_t id = sampler.choose(host_values(logits), history);
    if (std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) != config.eos_token_ids.end()) {
      result.finish = FinishReason::end_of_text;
      break;
    }
    result.ids.push_back(id);
    history.push_back(id);
    if (tokenizer && text.push(tokenizer->token_bytes(id))) {
      result.finish = FinishReason::stop;
      break;
    }
    if (stop && stop->load()) {
      result.finish = FinishReason::interrupted;
      break;
    }
    if (i + 1 < limit) input.resize_({1, 1}).fill_(id);
  }
  if (result.finish != FinishReason::stop) text.finish();
  result.text = text.text();
  result.decode_seconds = seconds_since(begin);
  return result;
}

}  // namespace anyaccel::llm
