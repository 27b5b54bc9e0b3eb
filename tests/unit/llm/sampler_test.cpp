#include "llm/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

const std::vector<float> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};

std::map<std::int64_t, double> frequencies(const SamplingOptions& options,
                                           std::vector<std::int64_t> history = {}) {
  Sampler sampler(options);
  std::map<std::int64_t, double> count;
  for (int i = 0; i < 4000; ++i) count[sampler.choose(kLogits, history)] += 1.0 / 4000;
  return count;
}

// Fails if tokens are not drawn according to their probabilities. Three standard deviations of 4000
// draws are 0.024.
TEST(Sampler, FollowsTheDistribution) {
  auto share = frequencies({});
  EXPECT_NEAR(share[0], 0.1, 0.03);
  EXPECT_NEAR(share[1], 0.4, 0.03);
  EXPECT_NEAR(share[2], 0.2, 0.03);
  EXPECT_NEAR(frequencies({.temperature = 0.5})[1], 0.16 / 0.30, 0.03);
}

// Fails if a filter keeps too many or too few tokens.
TEST(Sampler, Filters) {
  EXPECT_EQ(frequencies({.top_k = 2}).size(), 2U);
  EXPECT_EQ(frequencies({.top_k = 99}).size(), 4U);
  EXPECT_EQ(frequencies({.top_p = 0.6}).size(), 2U);   // 0.4 + 0.3
  EXPECT_EQ(frequencies({.top_p = 0.01}).size(), 1U);  // always at least one
  EXPECT_EQ(frequencies({.min_p = 0.6}).size(), 2U);   // tokens with a probability of at least 0.24
  EXPECT_EQ(frequencies({.temperature = 0}).begin()->first, 1);
}

// Fails if the vectorized search misses the largest logit at an edge, does not return the first of
// several equal logits, or treats NaN incorrectly.
TEST(Sampler, LargestOfMany) {
  for (const std::size_t size : {1, 15, 16, 17, 50, 1000}) {
    for (std::size_t at = 0; at < size; at += 1 + size / 20) {
      std::vector<float> logits(size, -3.0F);
      if (at > 0) logits[at - 1] = std::numeric_limits<float>::quiet_NaN();
      logits[at] = -1.5F;
      logits.back() = -1.5F;
      Sampler sampler({.temperature = 0});
      EXPECT_EQ(sampler.choose(logits, {}), static_cast<std::int64_t>(at)) << size;
    }
  }
}

// Fails if the penalty makes repeated tokens more likely. It would do so if the negative logits in
// this test were divided by the penalty.
TEST(Sampler, RepetitionPenalty) {
  EXPECT_LT(frequencies({.repetition_penalty = 2}, {1})[1], 0.3);
  EXPECT_EQ(frequencies({.temperature = 0, .repetition_penalty = 2}, {1, 1, 1}).begin()->first, 3);
}

// Fails if the same seed gives different draws, or different seeds give the same draws.
TEST(Sampler, Seed) {
  const auto draw = [](std::uint64_t seed) {
    Sampler sampler({.seed = seed});
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sampler.choose(kLogits, {}));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

// Fails if invalid options are accepted, or a token is chosen from NaN logits.
TEST(Sampler, Errors) {
  EXPECT_ERROR(Sampler({.temperature = -1}), invalid_argument, "temperature");
  EXPECT_ERROR(Sampler({.top_k = -1}), invalid_argument, "top-k");
  EXPECT_ERROR(Sampler({.top_p = 0}), invalid_argument, "top-p");
  EXPECT_ERROR(Sampler({.min_p = 2}), invalid_argument, "min-p");
  EXPECT_ERROR(Sampler({.repetition_penalty = 0}), invalid_argument, "repetition-penalty");
  const std::vector<float> nan(3, std::numeric_limits<float>::quiet_NaN());
  EXPECT_ERROR(Sampler({}).choose(nan, {}), device_error, "no finite logits");
}

}  // namespace
}  // namespace anyaccel::llm
