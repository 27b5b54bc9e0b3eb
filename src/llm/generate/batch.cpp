// Batched generation: several prompts per forward pass.
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

#include "llm/generate/generation.h"
#include "llm/generate/sequence.h"
#include "llm/model/state.h"
#include "llm/parallel/shards.h"

namespace anyaccel::llm {

namespace {

/// Maximum number of new tokens in a pass, to bound the memory for activations. Only a single
/// prompt may exceed it.
constexpr std::size_t kMaxTokens = 4096;

GenerateOptions options_of(const GenerateOptions& options, std::size_t prompt) {
  GenerateOptions own = options;
  own.sampling.seed += prompt;
  return own;
}

/// Delivers results in the order of the prompts.
class InOrder {
 public:
  explicit InOrder(const std::function<void(std::size_t, BatchResult)>& take) : take_(take) {}

  void add(std::size_t prompt, BatchResult result) {
    waiting_.emplace(prompt, std::move(result));
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; ++next_) {
      take_(first->first, std::move(first->second));
      first = waiting_.erase(first);
    }
  }

 private:
  const std::function<void(std::size_t, BatchResult)>& take_;
  std::map<std::size_t, BatchResult> waiting_;
  std::size_t next_ = 0;
};

struct Running {
  std::size_t prompt;
  Generation answer;
  KvCache cache;
  std::vector<std::int64_t> next;  ///< tokens that are not in the cache yet
};

class Batch {
 public:
  Batch(const Model& model, const Tokenizer* tokenizer, const GenerateOptions& options,
        InOrder& results)
      : model_(model), tokenizer_(tokenizer), options_(options), results_(results) {}

  std::size_t size() const { return running_.size(); }
  std::size_t waiting_tokens() const {
    std::size_t all = 0;
    for (const Running& one : running_) all += one.next.size();
    return all;
  }

  void begin(std::size_t prompt, const std::vector<std::int64_t>& ids) {
    const ModelState& state = *model_.state();
    try {
      Generation answer(state.config, tokenizer_, ids, options_of(options_, prompt), {});
      if (answer.ended()) return results_.add(prompt, {answer.finish(), std::nullopt});
      const std::int64_t capacity = static_cast<std::int64_t>(ids.size()) + answer.left();
      running_.push_back(
          {prompt, std::move(answer), KvCache(state.local, 1, capacity, state.dtype), ids});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      results_.add(prompt, {{}, error});
    }
  }

  /// Generates one token for each prompt.
  void step() {
    const at::Tensor logits = pass();
    std::int64_t row = 0;
    for (Running& one : running_) {
      const std::int64_t id = one.answer.take(row_of(logits, row++));
      const auto length = static_cast<std::int64_t>(one.answer.history().size());
      one.next = {id};
      const ModelConfig& config = model_.config();
      if (config.rope.type == RopeType::longrope && !same_rotation(config, length - 1, length)) {
        one.cache.truncate(0);
        one.next = one.answer.history();
      }
    }
    give_ended();
  }

  void interrupt() {
    for (Running& one : running_) one.answer.interrupt();
    give_ended();
  }

 private:
  /// Returns host logits, one row per prompt.
  at::Tensor pass() {
    ModelState& state = *model_.state();
    std::vector<at::Tensor> ids;
    std::vector<Segment> segments;
    for (Running& one : running_) {
      ids.push_back(ids_on_device(state.config, one.next, "generate"));
      segments.push_back({&one.cache, static_cast<std::int64_t>(one.next.size())});
    }
    const at::Tensor logits = running_.size() == 1
                                  ? llama_forward(state.weights, state.local, state.rope, ids[0],
                                                  segments[0].cache, /*last_only=*/true)
                                        .squeeze(0)
                                  : llama_forward_segments(state.weights, state.local, state.rope,
                                                           at::cat(ids, 1), segments);
    return logits.to(c10::Device(c10::kCPU), c10::kFloat).contiguous();
  }

  void give_ended() {
    for (Running& one : running_) {
      if (one.answer.ended()) results_.add(one.prompt, {one.answer.finish(), std::nullopt});
    }
    std::erase_if(running_, [](const Running& one) { return one.answer.ended(); });
  }

  const Model& model_;
  const Tokenizer* tokenizer_;
  const GenerateOptions& options_;
  InOrder& results_;
  std::vector<Running> running_;
};

void one_by_one(const Model& model, const Tokenizer* tokenizer,
                const std::vector<std::vector<std::int64_t>>& prompts,
                const GenerateOptions& options, InOrder& results,
                const std::function<bool()>& stopped, StopCondition stop) {
  Generator generator(model, tokenizer);
  for (std::size_t i = 0; i < prompts.size() && !stopped(); ++i) {
    try {
      results.add(i,
                  {generator.generate(prompts[i], options_of(options, i), {}, stop), std::nullopt});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      results.add(i, {{}, error});
    }
  }
}

}  // namespace

void generate_batch(const Model& model, const Tokenizer* tokenizer,
                    const std::vector<std::vector<std::int64_t>>& prompts,
                    const GenerateOptions& options, std::int64_t batch_size,
                    const std::function<void(std::size_t, BatchResult)>& on_result,
                    StopCondition stop) {
  const c10::AutoGradMode no_gradient(false);
  if (batch_size < 1) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "option batch-size is out of range",
                 .got = std::to_string(batch_size),
                 .want = "1 or more"});
  }
  // Report invalid options once instead of as an error for each prompt.
  Generation(model.config(), tokenizer, {0}, options, {});
  Shards* shards = model.state()->weights.shards.get();
  const std::function<bool()> stopped = [&] {
    const bool own = stop.stop_requested();
    return stop.stop_possible() && shards ? shards->any(own) : own;
  };
  InOrder results(on_result);
  if (batch_size == 1 || options.speculation.tokens != 0) {
    return one_by_one(model, tokenizer, prompts, options, results, stopped, stop);
  }
  Batch batch(model, tokenizer, options, results);
  std::size_t next = 0;
  while (batch.size() > 0 || next < prompts.size()) {
    if (stopped()) return batch.interrupt();
    while (next < prompts.size() && batch.size() < static_cast<std::size_t>(batch_size) &&
           (batch.size() == 0 || batch.waiting_tokens() + prompts[next].size() <= kMaxTokens)) {
      batch.begin(next, prompts[next]);
      ++next;
    }
    if (batch.size() > 0) batch.step();
  }
}

}  // namespace anyaccel::llm
