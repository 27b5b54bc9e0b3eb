#include "llm/data/ngram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "llm/data/corpus.h"

namespace anyaccel::llm {
namespace {

// Fails if the probabilities for a context do not sum to one, or do not follow the counts.
TEST(Ngram, IsADistribution) {
  const std::vector<std::uint16_t> train = {1, 2, 3, 1, 2, 3, 1, 2, 4, 7, 7, 7};
  const NgramModel model(train);
  for (const auto& [second, first] :
       {std::pair<std::uint16_t, std::uint16_t>{1, 2}, {7, 7}, {9, 9}, {3, 3}}) {
    double sum = 0;
    for (std::uint16_t token = 0; token < kByteVocabulary; ++token)
      sum += model.probability(second, first, token);
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
  // After the context (1, 2), token 3 occurs twice and token 4 once: 3 occurrences of 2 distinct
  // tokens.
  EXPECT_GT(model.probability(1, 2, 3), 2.0 / 5);
  EXPECT_GT(model.probability(1, 2, 3), model.probability(1, 2, 4));
  EXPECT_GT(model.probability(1, 2, 4), model.probability(1, 2, 5));
}

// Fails if the entropy includes tokens of the window that are not predicted.
TEST(Ngram, UnigramEntropy) {
  const std::vector<std::uint16_t> stream = {9, 1, 2, 1, 2, 5};
  const std::vector<Window> windows = {{0, 5}};
  EXPECT_NEAR(unigram_entropy(stream, windows), std::log(2.0), 1e-12);
}

// Fails if windows extend beyond the end of the stream, or the last one does not reach the end.
TEST(Ngram, SpreadWindows) {
  const auto windows = spread_windows(100, 10, 4);
  ASSERT_EQ(windows.size(), 4U);
  EXPECT_EQ(windows.front().begin, 0U);
  EXPECT_EQ(windows.back().begin, 90U);
  EXPECT_EQ(spread_windows(25, 10, 9).size(), 2U);
  EXPECT_TRUE(spread_windows(9, 10, 4).empty());
}

// Fails if repetitive text is not predicted well, or the context before a window is ignored.
TEST(Ngram, Loss) {
  std::vector<std::uint16_t> stream;
  for (int i = 0; i < 3000; ++i) stream.push_back(static_cast<std::uint16_t>(i % 3));
  const NgramModel model(stream);
  const auto windows = spread_windows(stream.size(), 4, 10);
  EXPECT_LT(model.loss(stream, windows), 0.01);
  EXPECT_GT(model.loss(stream, windows), 0.0);
}

}  // namespace
}  // namespace anyaccel::llm
