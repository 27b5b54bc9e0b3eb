#include "llm/model/decode_step.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/model.h"
#include "anyaccel/sdk/op_builder.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "unit/llm/small_config.h"

namespace anyaccel::llm {
namespace {

ModelConfig small() {
  ModelConfig config = small_config();
  config.max_positions = 64;
  return config;
}

class DecodeStepTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto compatible = get_accelerator().create_op_builder("DecoderInferenceBuilder")->is_compatible();
    if (!compatible.compatible || get_accelerator().device_name() != "cpu")
      GTEST_SKIP() << "no such op: " << compatible.reason;
  }
  at::Tensor forward(ModelState& state, const std::vector<std::int64_t>& ids, KvCache* cache) {
    return llama_forward(state.weights, state.local, state.rope, ids_on_device(state.config, ids, "test"), cache);
  }
  c10::AutoGradMode no_gradient_{false};
};

// Breaks when models of a plain kind silently go the slow way, or the two ways differ.
TEST_F(DecodeStepTest, IsTakenAndEqualsThePlainPass) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  ASSERT_FALSE(state.weights.step->asked);  // training builds no op
  ASSERT_TRUE(DecodeStep::of(state.weights, state.local));
  KvCache cache(state.local, 1, 40, c10::kFloat);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 18; ++i) ids.push_back(i * 7 % 20);
  forward(state, ids, &cache);  // more rows than the op takes: the plain pass
  for (const std::vector<std::int64_t>& more : {std::vector<std::int64_t>{3}, {5, 6, 7}, {1}}) {
    const at::Tensor got = forward(state, more, &cache);
    ids.insert(ids.end(), more.begin(), more.end());
    const at::Tensor want =
        forward(state, ids, nullptr)
            .narrow(1, static_cast<std::int64_t>(ids.size() - more.size()), static_cast<std::int64_t>(more.size()));
    EXPECT_TRUE(at::allclose(got, want, 1e-5, 1e-5));
  }
  EXPECT_EQ(cache.length(), 23);
}

// Breaks when the op keeps a copy of weights that training changes.
TEST_F(DecodeStepTest, SeesChangedWeights) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  const auto first = [&] {
    KvCache cache(state.local, 1, 4, c10::kFloat);
    return forward(state, {3}, &cache);
  };
  const at::Tensor before = first();
  state.weights.layers[1].down.mul_(2);
  const at::Tensor after = first();
  EXPECT_FALSE(at::equal(before, after));
  EXPECT_TRUE(at::allclose(after, forward(state, {3}, nullptr), 1e-5, 1e-5));
}

// Breaks when a pass that gradients go through is done by the op, which has none.
TEST_F(DecodeStepTest, LeavesGradientsToThePlainPass) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  const c10::AutoGradMode gradient(true);
  state.weights.norm.requires_grad_();
  KvCache cache(state.local, 1, 4, c10::kFloat);
  EXPECT_TRUE(forward(state, {3}, &cache).requires_grad());
}

// Breaks when a family with something that the op does not know is taken.
TEST_F(DecodeStepTest, RefusesWhatTheOpDoesNotKnow) {
  ModelConfig config = small();
  const Model model = Model::create(config, 3);
  config.norms_before = false;
  EXPECT_FALSE(DecodeStep::make(model.state()->weights, config));
  EXPECT_FALSE(DecodeStep::takes(2, 1));
  EXPECT_FALSE(DecodeStep::takes(1, 17));
  EXPECT_TRUE(DecodeStep::takes(1, 16));
}

}  // namespace
}  // namespace anyaccel::llm
