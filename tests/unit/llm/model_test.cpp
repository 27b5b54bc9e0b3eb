#include "anyaccel/llm/model.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "anyaccel/llm/generate.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "unit/llm/small_config.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

// Fails if saving loses a tensor or changes a value.
TEST(Model, SaveAndLoad) {
  const TemporaryFolder folder;
  const Model model = Model::create(small_config(), 1);
  model.save(folder.path());
  EXPECT_TRUE(at::equal(Model::load(folder.path()).logits({1, 2, 3}), model.logits({1, 2, 3})));
  EXPECT_EQ(model.parameter_count(),
            2 * 20 * 16 + 16 + 2 * (16 * (16 + 16 + 16) + 3 * 16 * 24 + 32));
}

// Fails if weights are copied although the file stores them in the required form, or changes to a
// loaded model are written to the file.
TEST(Model, UsesMappedWeightsInPlace) {
  const TemporaryFolder folder;
  const Model model = Model::create(small_config(), 1);
  model.save(folder.path());
  const Model same = Model::load(folder.path());
  Weights& weights = same.state()->weights;
  const bool host = weights.embedding.is_cpu();
  for (LayerWeights& layer : weights.layers) {
    EXPECT_EQ(layer.qkv_parts.size(), host ? 3U : 0U);
    EXPECT_EQ(layer.gate_up_parts.size(), host ? 2U : 0U);
    EXPECT_EQ(layer.qkv.defined(), !host);
  }
  EXPECT_TRUE(weights.head.is_same(weights.embedding) == small_config().tie_word_embeddings);
  const TemporaryFolder again;
  same.save(again.path());
  EXPECT_TRUE(at::equal(Model::load(again.path()).logits({1, 2, 3}), model.logits({1, 2, 3})));
  const c10::AutoGradMode no_gradient(false);
  weights.embedding.zero_();
  EXPECT_FALSE(at::equal(same.logits({1, 2, 3}), model.logits({1, 2, 3})));
  EXPECT_TRUE(at::equal(Model::load(folder.path()).logits({1, 2, 3}), model.logits({1, 2, 3})));
  // A conversion to a different dtype requires copies.
  const Model narrow = Model::load(folder.path(), c10::kBFloat16);
  EXPECT_TRUE(narrow.state()->weights.layers[0].qkv_parts.empty());
  EXPECT_TRUE(at::allclose(narrow.logits({1, 2, 3}), model.logits({1, 2, 3}), 0.1, 0.1));
}

// Fails if a pass without gradients, which may use the decoder op, gives different logits than
// torch's ops. Covers short and long prompts.
TEST(Model, PromptsOfEveryLength) {
  ModelConfig config = small_config();
  config.max_positions = 700;
  const Model model = Model::create(config, 3);
  ModelState& state = *model.state();
  for (const std::int64_t length : {1, 16, 17, 64, 65, 600}) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < length; ++i) ids.push_back(i * i % 19);
    const c10::AutoGradMode plain(true);
    const at::Tensor want =
        llama_forward(state.weights, state.local, state.rope, ids_on_device(config, ids, "test"))
            .squeeze(0);
    EXPECT_TRUE(at::allclose(model.logits(ids), want.cpu(), 1e-4, 1e-4)) << length;
  }
}

// Fails if memory is allocated for the sizes in the configuration before they are compared with the
// sizes of the weights.
TEST(Model, WrongSizesAreRejectedBeforeAllocation) {
  const TemporaryFolder folder;
  Model::create(small_config(), 1).save(folder.path());
  std::ifstream in(folder / "config.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string size = "\"vocab_size\": 20";
  ASSERT_NE(text.find(size), std::string::npos);
  folder.write("config.json",
               text.replace(text.find(size), size.size(), "\"vocab_size\": 2000000000"));
  EXPECT_ERROR(Model::load(folder.path()), corrupt, "model.embed_tokens.weight");
}

// Fails if a later token affects an earlier position.
TEST(Model, IsCausal) {
  const Model model = Model::create(small_config(), 1);
  EXPECT_TRUE(at::allclose(model.logits({4, 5, 6, 7}).narrow(0, 0, 3), model.logits({4, 5, 6}),
                           1e-5, 1e-6));
}

// Fails if generation with the KV cache gives different tokens than generation without it.
TEST(Model, CacheIsExact) {
  const Model model = Model::create(small_config(), 3);
  std::vector<std::int64_t> ids = {4, 5, 6};
  const GenerateResult result =
      generate(model, nullptr, ids, {.max_new_tokens = 8, .sampling = {.temperature = 0}});
  for (const std::int64_t id : result.ids) {
    const at::Tensor logits = model.logits(ids);
    EXPECT_EQ(logits[-1].argmax().item<std::int64_t>(), id);
    ids.push_back(id);
  }
  EXPECT_EQ(result.ids.size(), 8U);
}

// Fails if generation exceeds the context, or an invalid prompt is accepted.
TEST(Model, Limits) {
  const Model model = Model::create(small_config(), 3);
  const auto result =
      generate(model, nullptr, std::vector<std::int64_t>(14, 1), {.max_new_tokens = 8});
  EXPECT_EQ(result.ids.size(), 2U);
  EXPECT_EQ(result.finish, FinishReason::context);
  EXPECT_ERROR(model.logits(std::vector<std::int64_t>(17, 1)), invalid_argument, "context");
  EXPECT_ERROR(model.logits({20}), invalid_argument,
               "outside the vocabulary; got 20, want 0 to 19");
  EXPECT_ERROR(model.logits({}), invalid_argument, "empty");
}

// Fails if the same seed gives different weights, or different seeds give the same weights.
TEST(Model, SeedDeterminesWeights) {
  EXPECT_TRUE(at::equal(Model::create(small_config(), 1).logits({1}),
                        Model::create(small_config(), 1).logits({1})));
  EXPECT_FALSE(at::equal(Model::create(small_config(), 1).logits({1}),
                         Model::create(small_config(), 2).logits({1})));
}

}  // namespace
}  // namespace anyaccel::llm
