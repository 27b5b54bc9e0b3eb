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
#include "llm/quantize/weights.h"
#include "llm/support/host_random.h"
#include "unit/llm/small_config.h"

namespace anyaccel::llm {
namespace {

ModelConfig small() {
  ModelConfig config = small_config();
  config.max_positions = 64;
  return config;
}

/// A mixture-of-experts model whose second layer is dense.
ModelConfig with_experts(bool normalize) {
  ModelConfig config = small();
  config.num_layers = 3;
  config.num_experts = 6;
  config.experts_per_token = 2;
  config.expert_size = 20;
  config.normalize_experts = normalize;
  config.expert_layers = {true, false, true};
  return config;
}

class DecodeStepTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto compatible =
        get_accelerator().create_op_builder("DecoderInferenceBuilder")->is_compatible();
    if (!compatible.compatible || get_accelerator().device_name() != "cpu")
      GTEST_SKIP() << "the op is not available: " << compatible.reason;
  }
  at::Tensor forward(ModelState& state, const std::vector<std::int64_t>& ids, KvCache* cache) {
    return llama_forward(state.weights, state.local, state.rope,
                         ids_on_device(state.config, ids, "test"), cache);
  }
  /// Computes all positions at once with torch's ops. Gradients are enabled, which disables the
  /// decoder op.
  at::Tensor plain(ModelState& state, const std::vector<std::int64_t>& ids) {
    const c10::AutoGradMode gradient(true);
    return forward(state, ids, nullptr).detach();
  }
  /// Appends `more` to `ids` and compares the logits of the new rows with those of torch's ops.
  void expect_plain_rows(ModelState& state, KvCache& cache, std::vector<std::int64_t>& ids,
                         const std::vector<std::int64_t>& more) {
    const at::Tensor got = forward(state, more, &cache);
    ids.insert(ids.end(), more.begin(), more.end());
    const at::Tensor want = plain(state, ids)
                                .narrow(1, static_cast<std::int64_t>(ids.size() - more.size()),
                                        static_cast<std::int64_t>(more.size()));
    EXPECT_TRUE(at::allclose(got, want, 1e-5, 1e-5));
    EXPECT_FALSE(at::equal(got, want));  // bitwise equality would mean that the op was not used
  }
  void expect_plain_results(const ModelConfig& config) {
    const Model model = Model::create(config, 3);
    ModelState& state = *model.state();
    ASSERT_TRUE(DecodeStep::of(state.weights, state.local));
    KvCache cache(state.local, 1, 40, c10::kFloat);
    std::vector<std::int64_t> ids;
    for (const std::vector<std::int64_t>& more :
         {std::vector<std::int64_t>{3}, {5, 6, 7, 1, 2, 18, 4, 11, 12, 13, 14, 15}, {1}, {9, 8}}) {
      expect_plain_rows(state, cache, ids, more);
    }
  }
  c10::AutoGradMode no_gradient_{false};
};

// Fails if an ordinary model does not use the op, or the op's results differ from those of torch's
// ops.
TEST_F(DecodeStepTest, IsUsedAndMatchesTorchOps) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  ASSERT_FALSE(state.weights.step->asked);  // training does not build the op
  ASSERT_TRUE(DecodeStep::of(state.weights, state.local));
  KvCache cache(state.local, 1, 40, c10::kFloat);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 18; ++i) ids.push_back(i * 7 % 20);
  EXPECT_TRUE(at::allclose(forward(state, ids, &cache), plain(state, ids), 1e-5,
                           1e-5));  // too many rows for the op's few-row code path
  for (const std::vector<std::int64_t>& more : {std::vector<std::int64_t>{3}, {5, 6, 7}, {1}}) {
    expect_plain_rows(state, cache, ids, more);
  }
  EXPECT_EQ(cache.length(), 23);
}

// Fails if the op chooses different experts or expert weights for a token than torch's ops, or the
// result of a dense layer is wrong.
TEST_F(DecodeStepTest, ExpertsMatchTorchOps) {
  for (const bool normalize : {true, false}) {
    SCOPED_TRACE(normalize);
    expect_plain_results(with_experts(normalize));
  }
}

// Fails if the op is not used with one of the activations, or computes the activation differently
// than torch.
TEST_F(DecodeStepTest, EveryActivationMatchesTorchOps) {
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                      Activation::relu2, Activation::silu}) {
    for (ModelConfig config : {small(), with_experts(true)}) {
      SCOPED_TRACE(static_cast<int>(activation));
      config.activation = activation;
      expect_plain_results(config);
    }
  }
}

// Fails if the op uses a stale copy of weights that training has changed.
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
  EXPECT_TRUE(at::allclose(after, plain(state, {3}), 1e-5, 1e-5));
}

// Fails if the op, which does not support gradients, is used for a pass that needs gradients.
TEST_F(DecodeStepTest, LeavesGradientsToTorchOps) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  const c10::AutoGradMode gradient(true);
  state.weights.norm.requires_grad_();
  KvCache cache(state.local, 1, 4, c10::kFloat);
  EXPECT_TRUE(forward(state, {3}, &cache).requires_grad());
}

/// New tokens of three sequences in each pass: first prompts, then a few tokens. In the third pass,
/// one sequence gets too many tokens for the op.
const std::vector<std::vector<std::vector<std::int64_t>>> steps = {
    {{1, 2, 3}, {7}, {4, 5, 6, 7, 8, 9}},
    {{4}, {2, 3}, {10}},
    {{5}, {9}, {11, 12, 13, 14, 15, 16, 17, 18, 19, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    {{6}, {1}, {2}},
};

void expect_segments_as_alone(ModelState& state) {
  ASSERT_TRUE(DecodeStep::of(state.weights, state.local));
  std::vector<KvCache> together, alone;
  for (std::int64_t i = 0; i < 3; ++i) {
    together.emplace_back(state.local, 1, 30 + 3 * i, state.dtype);
    alone.emplace_back(state.local, 1, 40, state.dtype);
  }
  for (const auto& step : steps) {
    std::vector<std::int64_t> all;
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < 3; ++i) {
      all.insert(all.end(), step[i].begin(), step[i].end());
      segments.push_back({&together[i], static_cast<std::int64_t>(step[i].size())});
    }
    const at::Tensor got = llama_forward_segments(
        state.weights, state.local, state.rope, ids_on_device(state.config, all, "test"), segments);
    for (std::size_t i = 0; i < 3; ++i) {
      const at::Tensor want = llama_forward(state.weights, state.local, state.rope,
                                            ids_on_device(state.config, step[i], "test"), &alone[i],
                                            /*last_only=*/true);
      EXPECT_TRUE(at::equal(got[static_cast<std::int64_t>(i)], want[0][0].to(c10::kFloat))) << i;
      EXPECT_EQ(together[i].length(), alone[i].length());
    }
  }
}

// Fails if the logits of a sequence depend on the other sequences in the pass. Covers new prompts,
// sliding windows and mixture-of-experts models.
TEST_F(DecodeStepTest, SequencesDoNotDependOnEachOther) {
  ModelConfig windows = small();
  windows.windows = {4, 0};
  for (const ModelConfig& config : {small(), windows, with_experts(true)}) {
    for (const c10::ScalarType type : {c10::kFloat, c10::kBFloat16, c10::kHalf}) {
      ModelState state(config, type);
      HostRandom random(3);
      initialize(state.weights, config, random);
      expect_segments_as_alone(state);
    }
  }
}

// Repeats the test above with quantized weights.
TEST_F(DecodeStepTest, SequencesDoNotDependOnEachOtherWithIntegerWeights) {
  ModelConfig config = small();
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.head_dim = 16;
  for (const int bits : {8, 4}) {
    const Model model = Model::create(config, 3);
    quantize(model.state()->weights, model.config(), {.bits = bits, .group_size = 32});
    expect_segments_as_alone(*model.state());
  }
}

// Fails if a model with a feature that the op does not support is accepted.
TEST_F(DecodeStepTest, RejectsUnsupportedModels) {
  ModelConfig config = small();
  const Model model = Model::create(config, 3);
  config.norms_before = false;
  EXPECT_FALSE(DecodeStep::make(model.state()->weights, config));
  EXPECT_FALSE(DecodeStep::takes(17));
  EXPECT_TRUE(DecodeStep::takes(16));
}

}  // namespace
}  // namespace anyaccel::llm
