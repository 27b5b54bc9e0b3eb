#include "llm/quantize/weights.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "anyaccel/llm/generate.h"
#include "anyaccel/llm/model.h"
#include "anyaccel/llm/parallel.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "llm/parallel/shards.h"
#include "llm/quantize/formats.h"
#include "llm/quantize/stored_weights.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

ModelConfig small(bool tied = false) {
  ModelConfig config;
  config.vocab_size = 50;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.max_positions = 64;
  config.initializer_range = 0.1;
  config.tie_word_embeddings = tied;
  return config;
}

/// Each test uses a separate cache and checkpoint.
class Quantize : public testing::Test {
 protected:
  Quantize() {
    setenv("ANYACCEL_MODEL_CACHE", (cache_.path() / "models").c_str(), 1);
    Model::create(small(), 3).save(folder_.path());
  }
  ~Quantize() override { unsetenv("ANYACCEL_MODEL_CACHE"); }

  std::vector<std::filesystem::path> cached() const {
    std::vector<std::filesystem::path> out;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(cache_.path() / "models", ignored))
      out.push_back(entry);
    return out;
  }
  Model load(int bits, std::int64_t group = 0) const {
    return Model::load(folder_.path(), LoadOptions{.bits = bits, .group_size = group});
  }
  double distance(const Model& model) const {
    const std::vector<std::int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
    const at::Tensor want = Model::load(folder_.path()).logits(ids);
    return model.logits(ids).sub(want).abs().max().item<double>() / want.abs().max().item<double>();
  }

  TemporaryFolder cache_, folder_;
  c10::AutoGradMode no_gradient_{false};
};

// Fails if the default group size is not the largest one that divides the number of inputs.
TEST_F(Quantize, GroupsDivideTheInputs) {
  EXPECT_EQ(group_size(576, 0), 64);
  EXPECT_EQ(group_size(1536, 0), 128);
  EXPECT_EQ(group_size(96, 0), 32);
  EXPECT_EQ(group_size(40, 0), 0);
  EXPECT_EQ(group_size(576, 192), 192);
  EXPECT_EQ(group_size(576, 128), 0);
  EXPECT_EQ(group_size(576, 48), 0);
}

// Fails if a value is rounded to the wrong step, or unpacking reads a value from the wrong place.
TEST_F(Quantize, ErrorIsBounded) {
  // The error bounds below hold for this seed. With other numbers, errors may be slightly larger.
  at::Tensor weight = at::randn({7, 192}, at::make_generator<at::CPUGeneratorImpl>(1));
  weight[3].narrow(0, 32, 32).zero_();  // a group of zeros has no scale
  for (const std::int64_t group : {32, 64, 192}) {
    const at::Tensor greatest = weight.view({7, -1, group})
                                    .abs()
                                    .amax(-1, true)
                                    .expand({7, 192 / group, group})
                                    .reshape({7, 192});
    const QuantizedMatrix eight = quantize(weight, 8, group);
    EXPECT_TRUE(dequantize(eight.weight, eight.scales, 0, 7)
                    .sub(weight)
                    .abs()
                    .le(greatest.mul(0.501 / 127))
                    .all()
                    .item<bool>());
    const QuantizedMatrix four = quantize(weight, 4, group);
    EXPECT_EQ(four.weight.size(1), 96);
    // The error is at most half a step unless a value is clipped. The smallest scale that the
    // search tries is 0.84 times the largest one. Values whose sign differs from that of the value
    // with the largest magnitude are clipped at 7 steps.
    EXPECT_TRUE(dequantize(four.weight, four.scales, 0, 7)
                    .sub(weight)
                    .abs()
                    .le(greatest.mul(2.2 / 8).add(1e-7))
                    .all()
                    .item<bool>());
    EXPECT_LT(dequantize(four.weight, four.scales, 0, 7).sub(weight).square().mean().item<double>(),
              0.012);
    EXPECT_TRUE(at::equal(dequantize(four.weight, four.scales, 2, 3),
                          dequantize(four.weight, four.scales, 0, 7).narrow(0, 2, 3)));
  }
}

// Fails if a matrix that is quantized in chunks because of its size loses or repeats rows at the
// chunk boundaries.
TEST_F(Quantize, ChunksEqualTheWhole) {
  const at::Tensor weight = at::randn({4500, 64});
  for (const int bits : {8, 4}) {
    const QuantizedMatrix all = quantize(weight, bits, 64);
    EXPECT_EQ(all.weight.size(0), 4500);
    for (const std::int64_t row : {0, 4095, 4096, 4499}) {
      const QuantizedMatrix one = quantize(weight.narrow(0, row, 1), bits, 64);
      EXPECT_TRUE(at::equal(all.weight[row], one.weight[0]) &&
                  at::equal(all.scales.scales[row], one.scales.scales[0]));
    }
  }
}

// Fails if weights that are exact multiples of the scale change.
TEST_F(Quantize, ExactValuesArePreserved) {
  const at::Tensor q = at::randint(-8, 8, {5, 128});
  for (const std::int64_t group : {32, 128}) {
    at::Tensor weight = q.to(c10::kFloat).mul(0.25);
    weight.view({5, -1, group})
        .select(2, 0)
        .fill_(-2);  // the value with the largest magnitude, so that the scale is 0.25
    const QuantizedMatrix made = quantize(weight, 4, group);
    EXPECT_TRUE(at::equal(dequantize(made.weight, made.scales, 0, 5), weight));
  }
}

// Fails if the decoder op and torch's ops interpret the quantized weights or their scales
// differently.
TEST_F(Quantize, BothPassesAgree) {
  for (const int bits : {8, 4}) {
    for (const std::int64_t group : {0, 32}) {
      const Model model = load(bits, group);
      ModelState& state = *model.state();
      std::vector<std::int64_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
      KvCache cache(state.local, 1, 8, c10::kFloat);
      const at::Tensor got = llama_forward(state.weights, state.local, state.rope,
                                           ids_on_device(state.config, ids, "test"), &cache);
      EXPECT_TRUE(
          at::allclose(got.squeeze(0).to(c10::Device(c10::kCPU)), model.logits(ids), 2e-4, 2e-3));
    }
  }
}

// Fails if quantization changes the logits too much, for example because scales are lost.
TEST_F(Quantize, LogitsAreCloseToTheFloatModel) {
  EXPECT_LT(distance(load(8)), 0.03);
  EXPECT_LT(distance(load(4)), 0.3);
  EXPECT_GT(distance(load(4)), 1e-4);
}

// Fails if the second load does not use the cached file, or gives different results.
TEST_F(Quantize, CacheIsReused) {
  const at::Tensor first = load(4).logits({1, 2, 3});
  ASSERT_EQ(cached().size(), 1U);
  const auto before = std::filesystem::last_write_time(cached()[0]);
  std::filesystem::last_write_time(cached()[0], before - std::chrono::hours(1));
  EXPECT_TRUE(at::equal(load(4).logits({1, 2, 3}), first));
  EXPECT_GT(std::filesystem::last_write_time(cached()[0]),
            before - std::chrono::minutes(30));  // each use updates the modification time
  load(8);
  EXPECT_EQ(cached().size(), 2U);
  (void)Model::load(folder_.path(), LoadOptions{.bits = 4, .group_size = 32, .cache = false});
  EXPECT_EQ(cached().size(), 2U);
}

// Fails if the cached quantized weights of an old checkpoint are used for a new one in the same
// folder.
TEST_F(Quantize, CacheIsNotUsedForAnotherCheckpoint) {
  load(8);
  Model::create(small(), 4).save(folder_.path());
  EXPECT_LT(distance(load(8)), 0.1);
}

// Fails if a damaged cache file is used or never replaced.
TEST_F(Quantize, DamagedCacheFilesAreReplaced) {
  const at::Tensor right = load(8).logits({1, 2, 3});
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{100},
        static_cast<std::size_t>(std::filesystem::file_size(cached()[0])) - 8}) {
    std::filesystem::resize_file(cached()[0], size);
    EXPECT_TRUE(at::equal(load(8).logits({1, 2, 3}), right));
    EXPECT_GT(std::filesystem::file_size(cached()[0]), size);
  }
}

// Fails if the cache grows without limit, or does not evict the least recently used file.
TEST_F(Quantize, OldCacheFilesAreEvicted) {
  load(8);
  const auto first = cached()[0];
  std::filesystem::last_write_time(first,
                                   std::filesystem::last_write_time(first) - std::chrono::hours(1));
  setenv("ANYACCEL_MODEL_CACHE_SIZE",
         std::to_string(std::filesystem::file_size(first) + 100).c_str(), 1);
  load(4);
  unsetenv("ANYACCEL_MODEL_CACHE_SIZE");
  ASSERT_EQ(cached().size(), 1U);
  EXPECT_NE(cached()[0], first);
}

// Fails if a cache folder that other users can write to is used.
TEST_F(Quantize, WorldWritableFoldersAreNotUsed) {
  load(8);
  std::filesystem::permissions(cache_.path() / "models", std::filesystem::perms::all);
  std::filesystem::remove(cached()[0]);
  load(8);
  EXPECT_TRUE(cached().empty());
}

// Fails if quantizing a tied head also quantizes the embedding.
TEST_F(Quantize, TiedHeadKeepsTheEmbedding) {
  Model::create(small(true), 3).save(folder_.path());
  for (int time = 0; time < 2; ++time) {
    const Model model = load(8);
    EXPECT_EQ(model.state()->weights.embedding.scalar_type(), c10::kFloat);
    EXPECT_EQ(model.state()->weights.head.scalar_type(), c10::kChar);
    EXPECT_LT(distance(model), 0.02);
  }
}

/// The parts of three ranks. The numbers of heads and the inner size of the model are not divisible
/// by three.
class QuantizedParts : public Quantize {
 protected:
  QuantizedParts() {
    config_.hidden_size = 64;
    config_.num_heads = 4;
    config_.num_kv_heads = 2;
    config_.head_dim = 32;
    config_.intermediate_size = 256;
    Model::create(config_, 5).save(folder_.path());
  }
  ParallelPlan plan(int rank, const LoadOptions& options) const {
    const auto shapes = tensor_shapes(config_);
    return make_plan(config_, shapes, rank, 3, {},
                     inner_group(config_, shapes, StoredWeights(folder_.path()), options));
  }
  /// Loads and quantizes a rank's part.
  Weights part(const ParallelPlan& plan, const LoadOptions& options) const {
    Weights weights = make_weights(plan.local, c10::kFloat, c10::Device(c10::kCPU));
    llm::load(weights, plan.local, StoredWeights(folder_.path()), &plan);
    quantize(weights, plan.local, options, &plan);
    return weights;
  }
  static at::Tensor values(const at::Tensor& weight, const Scales& scales) {
    return scales.scales.defined() ? dequantize(weight, scales, 0, weight.size(0)) : weight;
  }
  ModelConfig config_ = small();
};

// Fails if a rank's quantized values differ from those that a single rank computes for the same
// rows and inputs.
TEST_F(QuantizedParts, EqualPartsOfTheWhole) {
  for (const int bits : {8, 4}) {
    const LoadOptions options{.bits = bits, .group_size = 32, .cache = false};
    const Model model = Model::load(folder_.path(), options);
    const Weights& all = model.state()->weights;
    const at::Tensor qkv = values(all.layers[1].qkv, all.layers[1].qkv_scales);
    const at::Tensor output = values(all.layers[1].output, all.layers[1].output_scales);
    const at::Tensor gate_up = values(all.layers[1].gate_up, all.layers[1].gate_up_scales);
    const at::Tensor down = values(all.layers[1].down, all.layers[1].down_scales);
    for (int rank = 0; rank < 3; ++rank) {
      const ParallelPlan mine = plan(rank, options);
      const Weights weights = part(mine, options);
      const LayerWeights& layer = weights.layers[1];
      const auto cut = [&](const char* name, const at::Tensor& whole) {
        const Slice slice = mine.find(name)->parts[0];
        return whole.narrow(static_cast<std::int64_t>(mine.find(name)->dim), slice.begin,
                            slice.count);
      };
      const std::string prefix = "model.layers.1.";
      const auto is = [&](const at::Tensor& weight, const Scales& scales, const at::Tensor& want) {
        EXPECT_TRUE(scales.scales.defined());
        EXPECT_TRUE(at::equal(values(weight, scales), want));
      };
      const std::int64_t key = 4 * 32, value = key + 2 * 32;
      is(layer.qkv, layer.qkv_scales,
         at::cat({cut((prefix + "self_attn.q_proj.weight").c_str(), qkv.narrow(0, 0, key)),
                  cut((prefix + "self_attn.k_proj.weight").c_str(), qkv.narrow(0, key, 64)),
                  cut((prefix + "self_attn.v_proj.weight").c_str(), qkv.narrow(0, value, 64))}));
      is(layer.output, layer.output_scales,
         cut((prefix + "self_attn.o_proj.weight").c_str(), output));
      is(layer.gate_up, layer.gate_up_scales,
         at::cat({cut((prefix + "mlp.gate_proj.weight").c_str(), gate_up.narrow(0, 0, 256)),
                  cut((prefix + "mlp.up_proj.weight").c_str(), gate_up.narrow(0, 256, 256))}));
      is(layer.down, layer.down_scales, cut((prefix + "mlp.down_proj.weight").c_str(), down));
      is(weights.head, weights.head_scales,
         cut("lm_head.weight", values(all.head, all.head_scales)));
    }
  }
}

// Fails if the group size of a rank's part does not divide the part's number of inputs, was not
// requested, or differs from the one in the plan.
TEST_F(QuantizedParts, GroupsFitThePart) {
  // The ranks get 1, 1 and 2 heads, which are too few inputs for a group size of 128 on any rank.
  const std::vector<std::int64_t> narrower = {32, 32, 64}, none = {0, 0, 0};
  for (const std::int64_t group : {0, 128}) {
    const LoadOptions options{.bits = 4, .group_size = group};
    const auto told = parallel_plan(folder_.path(), 3, {}, options);
    const auto find = [&](const std::string& name) {
      return *std::find_if(told.begin(), told.end(),
                           [&](const PlannedTensor& each) { return each.name == name; });
    };
    const PlannedTensor output = find("model.layers.0.self_attn.o_proj.weight");
    EXPECT_EQ(output.groups, group ? none : narrower);
    EXPECT_EQ(output.bits, group ? std::vector<int>({0, 0, 0}) : std::vector<int>({4, 4, 4}));
    EXPECT_EQ(find("model.embed_tokens.weight").bits, std::vector<int>({0, 0, 0}));
    for (int rank = 0; rank < 3; ++rank) {
      const ParallelPlan mine = plan(rank, options);
      const Weights weights = part(mine, options);
      const auto place = static_cast<std::size_t>(rank);
      const LayerWeights& layer = weights.layers[0];
      EXPECT_EQ(layer.output_scales.scales.defined(), group == 0);
      if (group == 0) {
        EXPECT_EQ(layer.output.size(1) * 2 / layer.output_scales.scales.size(1), narrower[place]);
      }
      // The inputs, which are two groups of 128, are divided among three ranks as 128, 64 and 64.
      const std::int64_t inner = mine.local.intermediate_size;
      EXPECT_EQ(inner, rank == 0 ? 128 : 64);
      const auto wanted = find("model.layers.0.mlp.down_proj.weight");
      EXPECT_EQ(wanted.parts[place], (std::vector<std::int64_t>{64, inner}));
      EXPECT_EQ(wanted.groups[place], rank == 0 ? 128 : group ? 0 : 64);
      EXPECT_EQ(layer.down_scales.scales.defined(), wanted.bits[place] == 4);
    }
  }
}

// Fails if a rank reads the cached quantized weights of another rank or another plan.
TEST_F(QuantizedParts, CacheIsPerRankAndPlan) {
  const LoadOptions options{.bits = 8};
  const ParallelPlan first = plan(0, options), second = plan(1, options);
  Weights made = part(first, options);
  QuantizedFile(folder_.path(), options, &first).save(made);
  EXPECT_EQ(cached().size(), 1U);
  const auto empty = [&] { return make_weights(first.local, c10::kFloat, c10::Device(c10::kCPU)); };
  Weights read = empty();
  ASSERT_TRUE(QuantizedFile(folder_.path(), options, &first).load(read));
  EXPECT_TRUE(read.quantized);
  EXPECT_TRUE(at::equal(read.layers[0].down, made.layers[0].down));
  EXPECT_TRUE(at::equal(read.layers[0].down_scales.scales, made.layers[0].down_scales.scales));
  read = empty();
  EXPECT_FALSE(QuantizedFile(folder_.path(), options, &second).load(read));
  EXPECT_FALSE(QuantizedFile(folder_.path(), options).load(read));
}

// Fails if an unsupported option or operation is not rejected.
TEST_F(Quantize, Errors) {
  EXPECT_ERROR(load(5), invalid_argument,
               "unsupported number of bits per weight; got 5, want 4 or 8");
  EXPECT_ERROR(load(4, 48), invalid_argument, "a multiple of 32");
  EXPECT_ERROR(load(8).save(folder_.path()), unsupported, "cannot save quantized weights");
}

}  // namespace
}  // namespace anyaccel::llm
