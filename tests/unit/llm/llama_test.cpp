#include "llm/model/llama.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "anyaccel/llm/model.h"
#include "llm/model/state.h"
#include "unit/llm/small_config.h"

namespace anyaccel::llm {
namespace {

/// A model whose second layer uses sliding-window attention.
ModelConfig windowed() {
  ModelConfig config = small_config();
  config.max_positions = 64;
  config.windows = {0, 3};
  return config;
}

struct Llama : testing::Test {
  at::Tensor forward(const std::vector<std::int64_t>& ids, KvCache* cache) const {
    ModelState& state = *model.state();
    return llama_forward(state.weights, state.local, state.rope,
                         ids_on_device(state.config, ids, "test"), cache);
  }
  KvCache cache(std::int64_t capacity) const { return {model.config(), 1, capacity, c10::kFloat}; }
  c10::AutoGradMode no_gradient{false};
  Model model = Model::create(windowed(), 1);
};

// Fails if truncated positions are still visible, or earlier positions are not. One layer uses
// sliding-window attention.
TEST_F(Llama, TruncatedCacheContinuesAnotherSequence) {
  KvCache kept = cache(12);
  forward({1, 2, 3, 4, 5, 6, 7, 8}, &kept);
  kept.truncate(5);
  const at::Tensor several = forward({9, 10, 11}, &kept);
  const at::Tensor want = forward({1, 2, 3, 4, 5, 9, 10, 11, 12}, nullptr);
  EXPECT_TRUE(at::allclose(several, want.narrow(1, 5, 3), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(forward({12}, &kept), want.narrow(1, 8, 1), 1e-5, 1e-5));
  kept.truncate(0);
  KvCache fresh = cache(12);
  EXPECT_TRUE(at::equal(forward({1, 2, 3}, &kept), forward({1, 2, 3}, &fresh)));
}

// Fails if a growing cache loses its contents.
TEST_F(Llama, LargerCacheKeepsItsPositions) {
  KvCache small = cache(4);
  KvCache large = cache(8);
  for (KvCache* each : {&small, &large}) forward({1, 2, 3, 4}, each);
  small.reserve(8);
  EXPECT_EQ(small.capacity(), 8);
  small.reserve(2);
  EXPECT_EQ(small.capacity(), 8);
  EXPECT_TRUE(at::equal(forward({5, 6, 7, 8}, &small), forward({5, 6, 7, 8}, &large)));
}

// Fails if a sequence attends to another sequence in the pass, or uses the other sequence's
// positions or window.
TEST_F(Llama, SegmentsAreIndependent) {
  const std::vector<std::vector<std::int64_t>> first = {{1, 2, 3, 4, 5, 6}, {7}, {8, 9, 10}};
  const std::vector<std::vector<std::int64_t>> then = {{11}, {12, 13}, {14}};
  std::vector<KvCache> caches(3, cache(8));
  for (KvCache& each : caches) each = cache(8);
  ModelState& state = *model.state();
  std::vector<std::vector<std::int64_t>> sequences(3);
  for (const auto& step : {first, then}) {
    std::vector<std::int64_t> ids;
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < 3; ++i) {
      ids.insert(ids.end(), step[i].begin(), step[i].end());
      sequences[i].insert(sequences[i].end(), step[i].begin(), step[i].end());
      segments.push_back({&caches[i], static_cast<std::int64_t>(step[i].size())});
    }
    const at::Tensor logits = llama_forward_segments(
        state.weights, state.local, state.rope, ids_on_device(state.config, ids, "test"), segments);
    ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{3, 20}));
    for (std::size_t i = 0; i < 3; ++i) {
      const auto row = static_cast<std::int64_t>(i);
      EXPECT_TRUE(at::allclose(logits[row], model.logits(sequences[i])[-1], 1e-5, 1e-5)) << i;
    }
  }
}

}  // namespace
}  // namespace anyaccel::llm
