#include "llm/parallel/shards.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <map>

#include "anyaccel/llm/model.h"
#include "llm/model/weights.h"
#include "llm/quantize/stored_weights.h"
#include "unit/llm/other_parts.h"
#include "unit/llm/small_config.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::llm {
namespace {

// Fails if the ranks' parts of a fused matrix do not make up the full matrix.
TEST(Shards, PartsMakeUpTheWhole) {
  ModelConfig config;
  config.num_heads = 6;
  config.num_kv_heads = 3;
  config.head_dim = 2;
  const at::Tensor whole = at::arange(24 * 5).view({24, 5});
  std::vector<at::Tensor> query, key, value;
  for (int rank = 0; rank < 2; ++rank) {
    const ParallelPlan plan =
        make_plan(config, {{"model.layers.0.self_attn.qkv_proj.weight", {24, 5}}}, rank, 2);
    const at::Tensor part = at::empty(plan.tensors[0].local_shape(), whole.options());
    copy_part(part, whole, plan.tensors[0]);
    const auto heads = part.split(
        {plan.local.num_heads * 2, plan.local.num_kv_heads * 2, plan.local.num_kv_heads * 2});
    query.push_back(heads[0]);
    for (auto* const list : {&key, &value}) {
      const at::Tensor& own = heads[list == &key ? 1 : 2];
      // Both ranks hold the second of the three key heads.
      if (rank == 1) {
        EXPECT_TRUE(own.narrow(0, 0, 2).equal(list->back().narrow(0, 2, 2)));
      }
      list->push_back(rank == 1 ? own.narrow(0, 2, own.size(0) - 2) : own);
    }
  }
  EXPECT_TRUE(at::cat({at::cat(query), at::cat(key), at::cat(value)}).equal(whole));
}

// Crashes if loading a rank's part reads rows, columns or tokens that belong only to other ranks.
TEST(Shards, OtherRanksPartsAreNotRead) {
  ModelConfig config = small_config();
  config.vocab_size = 512;
  config.num_layers = 1;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 2048;
  config.intermediate_size = 4096;
  const TemporaryFolder folder;
  Model::create(config, 1).save(folder.path());
  for (int rank = 0; rank < 2; ++rank) {
    const StoredWeights stored(folder.path());
    const ParallelPlan plan = make_plan(config, tensor_shapes(config), rank, 2);
    std::map<ShardStyle, std::size_t> pages;
    for (const TensorPlan& tensor : plan.tensors) {
      if (tensor.parts.empty()) continue;
      pages[tensor.style] +=
          forbid_other_parts(stored.floats(tensor.name, tensor.shape), tensor.dim, tensor.parts);
    }
    EXPECT_GT(pages[ShardStyle::column], 100U);
    EXPECT_GT(pages[ShardStyle::row], 30U);
    EXPECT_GT(pages[ShardStyle::vocabulary], 2U);
    Weights weights = make_weights(plan.local, c10::kFloat, c10::kCPU);
    load(weights, plan.local, stored, &plan);
    const at::Tensor down = stored.floats("model.layers.0.mlp.down_proj.weight", {16, 4096});
    EXPECT_TRUE(weights.layers[0].down.equal(down.narrow(1, rank * std::int64_t{2048}, 2048)));
  }
}

}  // namespace
}  // namespace anyaccel::llm
