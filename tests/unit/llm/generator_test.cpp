#include <gtest/gtest.h>

#include "anyaccel/llm/generate.h"
#include "llm/generate/drafter.h"
#include "unit/llm/small_config.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

using Ids = std::vector<std::int64_t>;

const Ids kPrompt = {4, 5, 6, 7, 4, 5, 6};

/// Models that use their caches differently: without windows, with windows, and with rotary
/// embeddings that change as a sequence grows.
std::vector<ModelConfig> configs() {
  ModelConfig plain = small_config();
  plain.max_positions = 64;
  ModelConfig windowed = plain;
  windowed.windows = {5, 0};
  ModelConfig dynamic = plain;
  dynamic.max_positions = 20;
  dynamic.rope = {.type = RopeType::dynamic, .factor = 4};
  ModelConfig longrope = plain;
  longrope.rope = {.type = RopeType::longrope,
                   .original_max_positions = 20,
                   .short_factor = {1, 1.1},
                   .long_factor = {2, 3}};
  ModelConfig learned = plain;
  learned.learned_positions = learned.layer_norm = true;
  return {plain, windowed, dynamic, longrope, learned};
}

GenerateOptions sampled(double temperature, std::int64_t tokens = 40) {
  return {
      .max_new_tokens = tokens,
      .sampling = {.temperature = temperature, .top_k = 8, .repetition_penalty = 1.05, .seed = 7}};
}

// Fails if the result does not continue the longest match, or exceeds the requested length.
TEST(LookUp, ContinuesTheLongestMatch) {
  EXPECT_EQ(look_up(Ids{1, 2, 3, 9, 8, 7, 1, 2, 3}, 2), (Ids{9, 8}));
  EXPECT_EQ(look_up(Ids{5, 3, 4, 2, 3, 6, 2, 3}, 2),
            (Ids{6, 2}));  // a match of two tokens takes precedence over a match of one
  EXPECT_EQ(look_up(Ids{1, 2, 1, 2, 1, 2}, 3), (Ids{1, 2}));  // fewer tokens than requested follow
  EXPECT_EQ(look_up(Ids{3, 6, 7, 3, 8, 9, 3}, 2),
            (Ids{8, 9}));  // the latest match that is followed by enough tokens
  EXPECT_EQ(look_up(Ids{3, 6, 7, 3, 8, 3}, 3), (Ids{6, 7, 3}));  // otherwise, the first match
  EXPECT_EQ(look_up(Ids{1, 2, 3}, 4), Ids());
  EXPECT_EQ(look_up(Ids{1}, 4), Ids());
  EXPECT_EQ(look_up(Ids{1, 1}, 0), Ids());
}

// Fails if speculation changes a generated token, for example because a rejected token stays in the
// cache or a random draw is lost. With these models, token probabilities are rarely nearly equal.
TEST(Speculation, DoesNotChangeTheText) {
  std::int64_t accepted = 0;
  for (const ModelConfig& config : configs()) {
    SCOPED_TRACE("rope type " + std::to_string(static_cast<int>(config.rope.type)));
    const Model model = Model::create(config, 3);
    const Model other = Model::create(config, 4);
    for (const double temperature : {0.0, 0.7, 1.5}) {
      const GenerateResult want = generate(model, nullptr, kPrompt, sampled(temperature));
      ASSERT_EQ(want.ids.size(), 40U);
      EXPECT_EQ(want.drafted, 0);
      for (const auto& draft :
           {std::optional<Model>(), std::optional(other), std::optional(model)}) {
        GenerateOptions options = sampled(temperature);
        options.speculation = {.tokens = 4, .draft = draft};
        const GenerateResult got = generate(model, nullptr, kPrompt, options);
        EXPECT_EQ(got.ids, want.ids) << "temperature " << temperature;
        EXPECT_LE(got.accepted, got.drafted);
        accepted += got.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

// Fails if the draft model and the main model make different random draws. A model that is its own
// draft model must predict every token.
TEST(Speculation, ModelPredictsItself) {
  const Model model = Model::create(configs()[0], 3);
  for (const double temperature : {0.0, 1.0}) {
    GenerateOptions options = sampled(temperature);
    options.speculation = {.tokens = 4, .draft = model};
    const GenerateResult got = generate(model, nullptr, kPrompt, options);
    EXPECT_EQ(got.accepted, got.drafted);
    EXPECT_EQ(got.drafted,
              31);  // of the 40 tokens, prefill generates 1 and each of 8 passes adds 1
  }
}

// Fails if speculation exceeds the context length or the requested length.
TEST(Speculation, RespectsTheLimits) {
  ModelConfig config = configs()[0];
  config.max_positions = 16;
  const Model model = Model::create(config, 3);
  GenerateOptions options = sampled(0);
  options.speculation = {.tokens = 8, .draft = model};
  const GenerateResult got = generate(model, nullptr, kPrompt, options);
  EXPECT_EQ(got.ids.size(), 9U);
  EXPECT_EQ(got.finish, FinishReason::context);
  EXPECT_EQ(
      generate(model, nullptr, kPrompt, {.max_new_tokens = 0, .speculation = options.speculation})
          .drafted,
      0);
  options.speculation.tokens = -1;
  EXPECT_ERROR(generate(model, nullptr, kPrompt, options), invalid_argument, "draft tokens");
}

// Fails if a draft model with a smaller vocabulary or context is used beyond its limits.
TEST(Speculation, SmallerDraftModel) {
  const Model model = Model::create(configs()[0], 3);
  ModelConfig config = configs()[0];
  config.max_positions = 12;
  const GenerateResult want = generate(model, nullptr, kPrompt, sampled(0));
  for (const std::int64_t vocabulary : {20, 7, 30}) {
    config.vocab_size = vocabulary;
    GenerateOptions options = sampled(0);
    options.speculation = {.tokens = 4, .draft = Model::create(config, 5)};
    const GenerateResult got = generate(model, nullptr, kPrompt, options);
    EXPECT_EQ(got.ids, want.ids);
    if (vocabulary == 20) {
      EXPECT_GT(got.drafted, 0);
    }
    if (vocabulary == 7) {
      EXPECT_EQ(got.drafted, 0);  // the prompt contains an id that the draft model does not know
    }
  }
}

// Fails if a draft model with a different tokenizer is accepted.
TEST(Speculation, TokenizersAreCompared) {
  const TemporaryFolder folder;
  std::string text = Tokenizer::bytes_json();
  folder.write("tokenizer.json", text);
  EXPECT_NO_THROW(check_draft_tokenizer(Tokenizer::bytes(), Tokenizer::load(folder.path())));
  const std::string pair = "\"a\":97";
  const auto compact = [](std::string json) {
    std::erase_if(json, [](char c) { return c == ' ' || c == '\n'; });
    return json;
  };
  text = compact(text);
  ASSERT_NE(text.find(pair), std::string::npos);
  text.replace(text.find(pair), pair.size(), "\"a\":98");
  ASSERT_NE(text.find("\"b\":98"), std::string::npos);
  text.replace(text.find("\"b\":98"), pair.size(), "\"b\":97");
  folder.write("tokenizer.json", text);
  EXPECT_ERROR(check_draft_tokenizer(Tokenizer::bytes(), Tokenizer::load(folder.path())),
               invalid_argument, "got \"b\" as token 97, want \"a\"");
}

// Fails if a reused cache changes the generated text, or no cache is reused.
TEST(Generator, ReusesTheCache) {
  for (const ModelConfig& config : configs()) {
    SCOPED_TRACE("rope type " + std::to_string(static_cast<int>(config.rope.type)));
    const Model model = Model::create(config, 3);
    Generator generator(model);
    Ids prompt = kPrompt;
    for (int turn = 0; turn < 4; ++turn) {
      const GenerateOptions options = sampled(0.8, 5);
      const GenerateResult got = generator.generate(prompt, options);
      EXPECT_EQ(got.ids, generate(model, nullptr, prompt, options).ids) << "turn " << turn;
      const auto size = static_cast<std::int64_t>(prompt.size());
      // Each turn appends two tokens to the generated text, and the last generated token is not in
      // the cache. If the rotation changes, all tokens are computed again.
      const bool fixed = config.rope.type == RopeType::standard;
      if (fixed || size <= 20) {
        EXPECT_EQ(got.cached_tokens, turn == 0 ? 0 : size - 3);
      }
      prompt.insert(prompt.end(), got.ids.begin(), got.ids.end());
      prompt.insert(prompt.end(), {2, 3});
    }
    // A different prompt, which is then repeated.
    const Ids changed = {4, 5, 9, 9};
    EXPECT_EQ(generator.generate(changed, sampled(0, 4)).ids,
              generate(model, nullptr, changed, sampled(0, 4)).ids);
    const GenerateResult again = generator.generate(changed, sampled(0, 4));
    EXPECT_EQ(again.ids, generate(model, nullptr, changed, sampled(0, 4)).ids);
    EXPECT_EQ(again.cached_tokens, 3);
  }
}

struct Collected {
  std::vector<std::size_t> order;
  std::vector<BatchResult> results;
  std::function<void(std::size_t, BatchResult)> take() {
    return [this](std::size_t prompt, BatchResult result) {
      order.push_back(prompt);
      results.push_back(std::move(result));
    };
  }
};

// Fails if a sequence in a batch depends on other sequences, uses the wrong random numbers, or is
// returned for the wrong prompt.
TEST(Batch, EqualsSingleGenerations) {
  const std::vector<Ids> prompts = {
      {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1}, kPrompt, {3, 3}, {19, 0, 5}, {2}};
  for (const ModelConfig& config : configs()) {
    SCOPED_TRACE("rope type " + std::to_string(static_cast<int>(config.rope.type)));
    const Model model = Model::create(config, 3);
    for (const double temperature : {0.0, 0.8}) {
      for (const std::int64_t size : {1, 2, 100}) {
        Collected got;
        generate_batch(model, nullptr, prompts, sampled(temperature, 20), size, got.take());
        EXPECT_EQ(got.order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
        for (std::size_t i = 0; i < prompts.size(); ++i) {
          GenerateOptions options = sampled(temperature, 20);
          options.sampling.seed += i;
          ASSERT_FALSE(got.results[i].error);
          EXPECT_EQ(got.results[i].result.ids, generate(model, nullptr, prompts[i], options).ids)
              << i;
          EXPECT_EQ(got.results[i].result.prompt_tokens,
                    static_cast<std::int64_t>(prompts[i].size()));
        }
      }
    }
  }
}

// Fails if an invalid prompt affects other prompts, or an invalid option is reported as an error in
// a prompt.
TEST(Batch, ErrorsAffectOnlyTheirPrompt) {
  const Model model = Model::create(small_config(), 3);
  const std::vector<Ids> prompts = {{1, 2}, Ids(40, 1), {}, {20}, {3, 4}};
  for (const std::int64_t size : {1, 3}) {
    Collected got;
    generate_batch(model, nullptr, prompts, sampled(0, 4), size, got.take());
    ASSERT_EQ(got.order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
    for (const std::size_t good : {0, 4}) EXPECT_EQ(got.results[good].result.ids.size(), 4U);
    const char* const faults[] = {"context", "empty", "vocabulary"};
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(got.results[i + 1].error);
      EXPECT_NE(std::string(got.results[i + 1].error->what()).find(faults[i]), std::string::npos);
    }
    EXPECT_ERROR(generate_batch(model, nullptr, prompts, sampled(-1), size, got.take()),
                 invalid_argument, "temperature");
  }
  Collected got;
  EXPECT_ERROR(generate_batch(model, nullptr, prompts, sampled(0), 0, got.take()), invalid_argument,
               "batch-size");
}

// Fails if a stop request discards finished results, or generation continues after the request.
TEST(Batch, StopKeepsFinishedResults) {
  const Model model = Model::create(small_config(), 3);
  const std::vector<Ids> prompts = {Ids(15, 1), {1, 2}, {3}, {4}};
  for (const std::int64_t size : {1, 2}) {
    std::atomic<bool> stop{false};
    Collected got;
    const auto take = got.take();
    generate_batch(
        model, nullptr, prompts, sampled(0, 10), size,
        [&](std::size_t prompt, BatchResult result) {
          stop = true;
          take(prompt, std::move(result));
        },
        &stop);
    EXPECT_EQ(got.order.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(got.results[0].result.finish, FinishReason::context);
    EXPECT_EQ(got.results.back().result.finish,
              size == 1 ? FinishReason::context : FinishReason::interrupted);
  }
}

}  // namespace
}  // namespace anyaccel::llm
