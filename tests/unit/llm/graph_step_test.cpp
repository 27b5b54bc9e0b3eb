#include "llm/model/graph_step.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/model.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "llm/quantize/linear.h"
#include "unit/llm/small_config.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::llm {
namespace {

constexpr std::int64_t kMany = 700;

ModelConfig small() {
  ModelConfig config = small_config();
  config.max_positions = kMany;
  return config;
}

/// Runs each test on the CPU and the simulator. Skips a backend that is not in this build.
class GraphStepTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto names = registered_backends();
    if (std::find(names.begin(), names.end(), GetParam()) == names.end())
      GTEST_SKIP() << "this build has no " << GetParam();
    set_accelerator(GetParam());
  }

  static at::Tensor host(const at::Tensor& tensor) {
    return tensor.to(c10::Device(c10::kCPU), c10::kFloat);
  }

  /// Feeds the next ids to the model and returns their logits as a device tensor. `way` selects the
  /// graph or eager execution.
  static at::Tensor forward(ModelState& state, std::int64_t id, KvCache* cache,
                            const char* way = "graph") {
    return forward(state, std::vector<std::int64_t>{id}, cache, way);
  }
  static at::Tensor forward(ModelState& state, const std::vector<std::int64_t>& ids, KvCache* cache,
                            const char* way = "graph") {
    const test::ScopedEnv decode("ANYACCEL_DECODE", way);
    return llama_forward(state.weights, state.local, state.rope,
                         ids_on_device(state.config, ids, "test"), cache);
  }

  static std::vector<std::int64_t> ids(std::int64_t count) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back((i * i + 7 * i) * 29 % 19);
    return out;
  }

  /// Runs a prompt, then single tokens with and without the graph, and expects the same logits.
  /// Cache memory that has not been written contains NaN.
  static void compare(const ModelConfig& config, std::int64_t prompt, std::int64_t steps,
                      std::int64_t captures, std::int64_t replays,
                      const std::function<void(ModelState&)>& prepare = {},
                      double tolerance = 1e-4) {
    const Model model = Model::create(config, 3);
    ModelState& state = *model.state();
    if (prepare) prepare(state);
    const c10::ScalarType type = state.weights.embedding.scalar_type();
    KvCache plain(config, 1, prompt + steps, type), captured(config, 1, prompt + steps, type);
    fill_with_nan(captured, 0, captured.capacity());
    for (KvCache* each : {&plain, &captured}) forward(state, ids(prompt), each, "plain");
    std::vector<at::Tensor> got, want;
    for (std::int64_t i = 0; i < steps; ++i) {
      got.push_back(forward(state, i * 5 % 19, &captured));
      want.push_back(forward(state, i * 5 % 19, &plain, "plain"));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].sizes(), want[i].sizes());
      ASSERT_TRUE(at::allclose(host(got[i]), host(want[i]), tolerance, tolerance))
          << "step " << i << ", off by "
          << host(got[i]).sub(host(want[i])).abs().max().item<float>() << " of "
          << host(want[i]).abs().max().item<float>();
    }
    EXPECT_EQ(captured.length(), prompt + steps);
    EXPECT_EQ(captured.graph_step().captures(), captures);
    EXPECT_EQ(captured.graph_step().replays(), replays);
    EXPECT_EQ(plain.graph_step().captures(), 0);
  }

  /// Fills the cache positions in [begin, end) with NaN.
  static void fill_with_nan(const KvCache& cache, std::int64_t begin, std::int64_t end) {
    for (const auto* layers : {&cache.keys(), &cache.values()}) {
      for (const at::Tensor& layer : *layers) {
        layer.narrow(2, begin, end - begin).fill_(std::numeric_limits<double>::quiet_NaN());
      }
    }
  }

  c10::AutoGradMode no_gradient_{false};
};

INSTANTIATE_TEST_SUITE_P(On, GraphStepTest, testing::Values("cpu", "sim"),
                         [](const auto& each) { return std::string(each.param); });

// Fails if a replay uses the position or keys of another step, reads memory beyond the sequence, or
// no new graph is captured when the sequence becomes too long for the old one.
TEST_P(GraphStepTest, MatchesEagerAsTheSequenceGrows) { compare(small(), 250, 300, 3, 297); }

// Fails if a window does not contain exactly the last positions, or sliding-window layers do not
// use their separate rotary embedding. Covers windows shorter than the sequence and windows longer
// than it.
TEST_P(GraphStepTest, Windows) {
  ModelConfig config = small();
  config.windows = {3, 10};
  compare(config, 1, 20, 1, 19);
  config.windows = {200, 30};
  config.window_rope_theta = 500;
  compare(config, 190, 30, 1, 29);
}

// Fails if a replay calls about as many ops as an eager pass.
TEST_P(GraphStepTest, LaunchesFewOps) {
  static thread_local int ops;
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  KvCache cache(state.local, 1, 40, c10::kFloat);
  for (int i = 0; i < 3; ++i) forward(state, 1, &cache);
  const auto count = [&](const char* way) {
    ops = 0;
    const auto start = [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
      ++ops;
      return nullptr;
    };
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(+start).scopes({at::RecordScope::FUNCTION}));
    forward(state, 1, &cache, way);
    at::removeCallback(handle);
    return ops;
  };
  EXPECT_GT(count("plain"), 60);
  // On synchronous devices, a replay calls kernels through the dispatcher, which counts them as
  // ops.
  if (!get_accelerator().is_synchronized_device()) {
    EXPECT_LT(count("graph"), 20);
  }
  EXPECT_FALSE(state.weights.step->asked);  // an op that is not used is not built
}

// Fails if a model family's decode step cannot be captured, or reads the position on the host. A
// replay would then not see that the position has changed.
TEST_P(GraphStepTest, Families) {
  ModelConfig gemma = small();
  gemma.norm_plus_one = gemma.norms_after = gemma.query_key_norm = true;
  gemma.activation = Activation::gelu_tanh;
  gemma.embedding_scale = 4;
  gemma.attention_scale = 0.4;
  gemma.attention_softcap = 3;
  gemma.logit_softcap = 5;
  gemma.windows = {4, 0};
  compare(gemma, 5, 20, 1, 19);
  ModelConfig opt = small();
  opt.num_kv_heads = 4;
  opt.learned_positions = opt.layer_norm = opt.qkv_bias = opt.output_bias = opt.mlp_bias =
      opt.scale_by_layer = true;
  opt.gated = opt.norms_before = opt.final_norm = false;
  opt.position_offset = 2;
  opt.embedding_size = 12;
  opt.activation = Activation::relu;
  compare(opt, 5, 20, 1, 19);
  ModelConfig phi = small();
  phi.rope.partial = 0.5;
  phi.tie_word_embeddings = true;
  compare(phi, 5, 20, 1, 19);
}

// Fails if long sequences use the RoPE tables of short ones, or a captured graph contains angles
// that should change with the position.
TEST_P(GraphStepTest, Rotations) {
  ModelConfig longrope = small();
  longrope.rope = {.type = RopeType::longrope,
                   .original_max_positions = 20,
                   .short_factor = {1, 1.5},
                   .long_factor = {2, 3}};
  compare(longrope, 5, 30, 2, 28);
  ModelConfig dynamic = small();
  dynamic.max_positions = 16;
  dynamic.rope = {.type = RopeType::dynamic, .factor = 4};
  compare(dynamic, 5, 30, 1, 10);
  const Model model = Model::create(dynamic, 3);
  EXPECT_TRUE(GraphStep::takes(model.state()->weights, dynamic, 15));
  EXPECT_FALSE(GraphStep::takes(model.state()->weights, dynamic, 16));
}

// Fails if the mask, the RoPE tables or the logits do not have the type of the weights.
TEST_P(GraphStepTest, HalfPrecision) {
  const auto narrow = [](ModelState& state) {
    each_parameter(state.weights, [](const std::string&, at::Tensor& tensor) {
      tensor = tensor.to(c10::kBFloat16);
    });
  };
  ModelConfig config = small();
  config.windows = {0, 5};
  compare(config, 8, 20, 1, 19, narrow, 0.06);
}

// Fails if matrix products with quantized weights cannot be captured, or a replay returns the
// captured results.
TEST_P(GraphStepTest, Integers) {
  ModelConfig config = small();
  config.hidden_size = config.intermediate_size = 32;
  config.head_dim = 8;
  const auto quantized = [](ModelState& state) {
    each_matrix(state.weights, [](const std::string&, at::Tensor& weight, Scales& scales) {
      const QuantizedMatrix made = quantize(weight, 8, 32);
      weight = made.weight;
      scales = made.scales;
    });
    state.weights.quantized = true;
  };
  const Model model = Model::create(config, 3);
  quantized(*model.state());
  // False on the CPU if the decoder op is not available.
  const bool taken = GraphStep::takes(model.state()->weights, config, 5);
  compare(config, 5, 20, taken ? 1 : 0, taken ? 19 : 0, quantized, 2e-3);
}

// Fails if truncated positions become visible again or affect results although they are masked.
// Also fails if the graph is captured again because the sequence is shorter.
TEST_P(GraphStepTest, Truncation) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  KvCache cache(state.local, 1, 300, c10::kFloat), plain(state.local, 1, 300, c10::kFloat);
  forward(state, ids(253), &cache);
  for (int i = 0; i < 6; ++i) forward(state, 3, &cache);
  EXPECT_EQ(cache.graph_step().captures(), 2);
  fill_with_nan(cache, 250, 259);
  cache.truncate(250);
  forward(state, ids(250), &plain);
  for (std::int64_t i = 0; i < 9; ++i) {
    const at::Tensor got = forward(state, i, &cache);
    ASSERT_TRUE(at::allclose(host(got), host(forward(state, i, &plain, "plain")), 1e-4, 1e-4)) << i;
  }
  EXPECT_EQ(cache.graph_step().captures(), 2);
  // A pass over several tokens may run between two replays.
  for (KvCache* each : {&cache, &plain}) forward(state, {4, 5, 6}, each);
  EXPECT_TRUE(at::allclose(host(forward(state, 7, &cache)),
                           host(forward(state, 7, &plain, "plain")), 1e-4, 1e-4));
}

// Fails if a graph uses the old memory of a cache that has grown.
TEST_P(GraphStepTest, Reserve) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  KvCache cache(state.local, 1, 12, c10::kFloat), plain(state.local, 1, 40, c10::kFloat);
  for (KvCache* each : {&cache, &plain}) forward(state, ids(5), each);
  const auto step = [&](std::int64_t id) {
    const at::Tensor got = forward(state, id, &cache);
    EXPECT_TRUE(at::allclose(host(got), host(forward(state, id, &plain, "plain")), 1e-4, 1e-4))
        << id;
  };
  for (std::int64_t i = 0; i < 7; ++i) step(i);
  EXPECT_EQ(cache.graph_step().replays(), 6);
  EXPECT_ERROR(forward(state, 1, &cache), invalid_argument, "the cache is full");
  cache.reserve(40);
  for (std::int64_t i = 0; i < 7; ++i) step(i);
  EXPECT_EQ(cache.graph_step().captures(), 1);
  EXPECT_EQ(cache.graph_step().replays(), 6);
}

// Fails if a graph uses stale copies of weights, or the graph of a different model.
TEST_P(GraphStepTest, UsesTheModelsCurrentWeights) {
  const Model model = Model::create(small(), 3), other = Model::create(small(), 4);
  KvCache cache(model.config(), 1, 12, c10::kFloat);
  const auto third = [&](const Model& of, const char* way) {
    cache.truncate(0);
    for (int i = 0; i < 2; ++i) forward(*of.state(), 1, &cache, way);
    return host(forward(*of.state(), 2, &cache, way));
  };
  const at::Tensor before = third(model, "graph");
  model.state()->weights.layers[1].down.mul_(2);
  const at::Tensor after = third(model, "graph");
  EXPECT_FALSE(at::allclose(before, after, 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(after, third(model, "plain"), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(third(other, "graph"), third(other, "plain"), 1e-4, 1e-4));
}

// Fails if a pass of a mixture-of-experts model is captured although the host must choose the
// experts, or a replay runs although gradients are needed.
TEST_P(GraphStepTest, UnsupportedPassesRunWithoutAGraph) {
  ModelConfig experts = small();
  experts.num_experts = 4;
  experts.experts_per_token = 2;
  experts.expert_size = 8;
  experts.expert_layers = {false, true};
  testing::internal::CaptureStderr();
  compare(experts, 5, 4, 0, 0);
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  state.weights.norm.requires_grad_();
  const c10::AutoGradMode gradient(true);
  KvCache cache(state.local, 1, 4, c10::kFloat);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(forward(state, 3, &cache).requires_grad());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Fails if a failed capture ends the generation, leaves the thread capturing, or is retried for
// each token. The failure must be reported once.
TEST_P(GraphStepTest, FailedCaptureIsReportedOnce) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  KvCache cache(state.local, 1, 12, c10::kFloat);
  int passes = 0;
  const auto looks = [&](NextToken&, const at::Tensor& id) {
    ++passes;
    return id.to(c10::kFloat).add(static_cast<double>(id.item<std::int64_t>()));
  };
  const auto run = [&] {
    return cache.graph_step().run(state.weights, state.local, state.rope,
                                  ids_on_device(state.config, {3}, "test"), cache, looks);
  };
  testing::internal::CaptureStderr();
  ASSERT_TRUE(GraphStep::takes(state.weights, state.local, 0));
  EXPECT_TRUE(run());  // the first call runs without a graph
  EXPECT_FALSE(run());
  EXPECT_EQ(passes, 2);
  EXPECT_FALSE(get_accelerator().is_current_stream_capturing());
  EXPECT_FALSE(GraphStep::takes(state.weights, state.local, 0));
  const at::Tensor got = forward(state, 3, &cache);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  EXPECT_NE(told.find("eagerly"), std::string::npos) << told;
  EXPECT_TRUE(at::allclose(host(got), host(forward(state, 3, nullptr)), 1e-4, 1e-4));
}

// Fails if an error in the computation is treated as a lack of graph support, which would hide the
// error and lose the sequence.
TEST_P(GraphStepTest, FailedWorkIsAnError) {
  const Model model = Model::create(small(), 3);
  ModelState& state = *model.state();
  KvCache cache(state.local, 1, 12, c10::kFloat);
  const at::Tensor three = ids_on_device(state.config, {3}, "test");
  const auto run = [&](const GraphStep::Pass& pass) {
    return cache.graph_step().run(state.weights, state.local, state.rope, three, cache, pass);
  };
  const auto fails = [](NextToken&, const at::Tensor& id) { return id.view({7}); };
  EXPECT_THROW(run(fails), std::exception);
  EXPECT_THROW(run(fails), std::exception);  // the failed call did not count as the warm-up
  EXPECT_TRUE(GraphStep::takes(state.weights, state.local, 0));
  if (get_accelerator().is_synchronized_device()) return;
  // A failure between the first token and the capture is detected only at the next synchronization.
  const auto works = [](NextToken&, const at::Tensor& id) { return id.to(c10::kFloat); };
  EXPECT_TRUE(run(works));
  const at::Tensor rows = at::zeros({3}, state.weights.embedding.options());
  for (const int row : {1, 5})
    rows.index_select(0, at::full({1}, row, rows.options().dtype(c10::kLong)));
  EXPECT_THROW(run(works), std::exception);
  EXPECT_TRUE(GraphStep::takes(state.weights, state.local, 0));
  EXPECT_TRUE(run(works));
  EXPECT_EQ(cache.graph_step().replays(), 1);
}

// Fails if a long sequence needs too many graphs, or its graph does not cover the whole sequence.
TEST(GraphStep, ReachCoversTheSequence) {
  EXPECT_EQ(GraphStep::reach_of(1, 1000), 256);
  EXPECT_EQ(GraphStep::reach_of(256, 1000), 256);
  EXPECT_EQ(GraphStep::reach_of(257, 1000), 512);
  EXPECT_EQ(GraphStep::reach_of(3, 100), 100);
  EXPECT_EQ(GraphStep::reach_of(900, 1000), 1000);
  std::int64_t last = 0, different = 0;
  for (std::int64_t length = 1; length <= 131072; ++length) {
    const std::int64_t reach = GraphStep::reach_of(length, 131072);
    ASSERT_GE(reach, length);
    ASSERT_LE(reach, length + std::max<std::int64_t>(256, length / 8));
    different += reach != last ? 1 : 0;
    last = reach;
  }
  EXPECT_LT(different, 64);
}

// Fails if an invalid value of ANYACCEL_DECODE is accepted.
TEST(GraphStep, ModeNames) {
  for (const auto& [name, way] :
       {std::pair("auto", DecodeWay::automatic), std::pair("graph", DecodeWay::graph),
        std::pair("plain", DecodeWay::plain), std::pair("", DecodeWay::automatic)}) {
    const test::ScopedEnv set("ANYACCEL_DECODE", name);
    EXPECT_EQ(decode_way(), way);
  }
  const test::ScopedEnv set("ANYACCEL_DECODE", "graphs");
  EXPECT_ERROR(decode_way(), invalid_argument, "auto, graph or plain");
}

}  // namespace
}  // namespace anyaccel::llm
