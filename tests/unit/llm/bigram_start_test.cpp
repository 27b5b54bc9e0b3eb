#include "llm/train/bigram_start.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "anyaccel/llm/model.h"
#include "llm/model/state.h"

namespace anyaccel::llm {
namespace {

constexpr std::int64_t kTokens = 12;

ModelConfig config_of(std::int64_t width) {
  ModelConfig config;
  config.vocab_size = kTokens;
  config.hidden_size = width;
  config.intermediate_size = 32;
  config.num_layers = 1;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = 16;
  return config;
}

/// A token stream in which token t is followed by t + 1 with probability 3/4, and otherwise by
/// t + 2, modulo kTokens.
std::vector<std::uint16_t> chain() {
  std::mt19937 random(1);
  std::vector<std::uint16_t> out = {0};
  for (int i = 0; i < 20000; ++i) {
    const int step = random() % 4 == 0 ? 2 : 1;
    out.push_back(static_cast<std::uint16_t>((out.back() + step) % kTokens));
  }
  return out;
}

// Fails if the initial weights do not reproduce the counted probabilities. They can do so exactly
// if the width is at least the vocabulary size.
TEST(BigramStart, PredictsTheCountedProbabilities) {
  Model model = Model::create(config_of(16), 3);
  HostRandom random(5);
  start_from_bigrams(model.state()->weights, model.config(), chain(), random);
  const at::Tensor chances = model.logits({0, 1, 5}).softmax(-1);
  for (const auto& [row, token] : {std::pair{0, 0}, {1, 1}, {2, 5}}) {
    EXPECT_NEAR(chances[row][(token + 1) % kTokens].item<double>(), 0.75, 0.04);
    EXPECT_NEAR(chances[row][(token + 2) % kTokens].item<double>(), 0.25, 0.04);
  }
}

// Fails if a width smaller than the vocabulary is rejected, or the predictions are no better than a
// uniform distribution.
TEST(BigramStart, NarrowModelsAreBetterThanUniform) {
  Model model = Model::create(config_of(8), 3);
  HostRandom random(5);
  start_from_bigrams(model.state()->weights, model.config(), chain(), random);
  const at::Tensor chances = model.logits({3}).softmax(-1);
  EXPECT_GT(chances[0][4].item<double>(), 3.0 / kTokens);
}

// Fails if tied embeddings are overwritten. They cannot represent the counted probabilities, which
// require different matrices for the embedding and the head.
TEST(BigramStart, KeepsTiedEmbeddings) {
  ModelConfig config = config_of(16);
  config.tie_word_embeddings = true;
  Model model = Model::create(config, 3);
  const at::Tensor before = model.logits({3});
  HostRandom random(5);
  start_from_bigrams(model.state()->weights, model.config(), chain(), random);
  EXPECT_TRUE(model.logits({3}).equal(before));
}

}  // namespace
}  // namespace anyaccel::llm
