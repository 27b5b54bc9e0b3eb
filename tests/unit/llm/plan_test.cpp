#include "llm/parallel/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

ModelConfig grouped(std::int64_t heads, std::int64_t kv_heads) {
  ModelConfig config;
  config.num_heads = heads;
  config.num_kv_heads = kv_heads;
  config.head_dim = 8;
  config.hidden_size = 32;
  config.intermediate_size = 50;
  config.vocab_size = 65;
  return config;
}

// Fails if parts overlap, leave a gap, or differ in size by more than one.
TEST(ParallelPlan, BalancedPartsCoverEverything) {
  EXPECT_EQ(balanced(10, 0, 3), (Slice{0, 4}));
  EXPECT_EQ(balanced(10, 1, 3), (Slice{4, 3}));
  EXPECT_EQ(balanced(10, 2, 3), (Slice{7, 3}));
}

// Fails if a query head is lost or repeated, or is not on the same rank as its key head.
TEST(ParallelPlan, EveryQueryHeadIsWithItsKeyHead) {
  for (const auto& [heads, kv] : {std::pair{8, 8}, std::pair{8, 2}, std::pair{12, 3},
                                  std::pair{9, 3}, std::pair{14, 2}, std::pair{4, 1}}) {
    for (int size = 1; size <= 4; ++size) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const HeadShare share = share_heads(heads, kv, rank, size);
        EXPECT_EQ(share.query.begin, next);
        next += share.query.count;
        ASSERT_GT(share.query.count, 0);
        const std::int64_t group = heads / kv;
        EXPECT_EQ(share.query.begin / group, share.key.begin);
        EXPECT_EQ((share.query.begin + share.query.count - 1) / group,
                  share.key.begin + share.key.count - 1);
      }
      EXPECT_EQ(next, heads);
    }
  }
}

// Fails if groups of query heads are split without reducing the largest number of heads per rank,
// or are not split although that would reduce it. A rank must also know which key heads its query
// heads use.
TEST(ParallelPlan, GroupsAreSplitIfThatReducesTheMaximum) {
  EXPECT_EQ(share_heads(9, 3, 0, 2).query, (Slice{0, 5}));
  EXPECT_EQ(share_heads(9, 3, 1, 2).query, (Slice{5, 4}));
  EXPECT_EQ(share_heads(9, 3, 1, 2).key, (Slice{1, 2}));
  EXPECT_EQ(share_heads(32, 8, 1, 3).query,
            (Slice{12, 12}));  // no more expensive than 11 query heads with 4 key heads
  const std::vector<TensorShape> shapes = {{"model.layers.0.self_attn.q_proj.weight", {72, 32}},
                                           {"model.layers.0.self_attn.k_proj.weight", {24, 32}}};
  const ParallelPlan plan = make_plan(grouped(9, 3), shapes, 1, 2);
  EXPECT_EQ(plan.tensors[0].parts, (std::vector<Slice>{{40, 32}}));
  EXPECT_EQ(plan.tensors[1].parts, (std::vector<Slice>{{8, 16}}));
  EXPECT_EQ(plan.local.head_group, 3);
  EXPECT_EQ(plan.local.first_head, 2);
  EXPECT_EQ(make_plan(grouped(9, 3), shapes, 1, 3).local.head_group, 0);
}

// Fails if a fused matrix is split as a single matrix or along the wrong dimension, or a size of
// the rank's model is wrong.
TEST(ParallelPlan, FusedRowsAndVocabulary) {
  const std::vector<TensorShape> shapes = {{"model.embed_tokens.weight", {65, 32}},
                                           {"model.layers.0.self_attn.qkv_proj.weight", {64, 32}},
                                           {"model.layers.0.self_attn.o_proj.weight", {32, 32}},
                                           {"model.layers.0.mlp.gate_up_proj.weight", {100, 32}},
                                           {"model.norm.weight", {32}}};
  const ParallelPlan plan = make_plan(grouped(4, 2), shapes, 1, 2);
  EXPECT_EQ(plan.find("model.embed_tokens.weight")->parts, (std::vector<Slice>{{33, 32}}));
  EXPECT_EQ(plan.find("model.layers.0.self_attn.qkv_proj.weight")->parts,
            (std::vector<Slice>{{16, 16}, {40, 8}, {56, 8}}));
  const TensorPlan& output = *plan.find("model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(output.dim, 1U);
  EXPECT_EQ(output.local_shape(), (std::vector<std::int64_t>{32, 16}));
  EXPECT_EQ(plan.find("model.layers.0.mlp.gate_up_proj.weight")->parts,
            (std::vector<Slice>{{25, 25}, {75, 25}}));
  EXPECT_EQ(plan.find("model.norm.weight")->style, ShardStyle::replicated);
  EXPECT_EQ(plan.local.num_heads, 2);
  EXPECT_EQ(plan.local.num_kv_heads, 1);
  EXPECT_EQ(plan.local.intermediate_size, 25);
  EXPECT_EQ(plan.local.vocab_size, 32);
}

// Fails if the bias is added to an all-reduced sum by more than one rank.
TEST(ParallelPlan, BiasOfASumOnOneRank) {
  const std::vector<TensorShape> shapes = {{"model.layers.0.mlp.down_proj.bias", {32}}};
  EXPECT_TRUE(make_plan(grouped(4, 2), shapes, 0, 2).tensors[0].present);
  EXPECT_FALSE(make_plan(grouped(4, 2), shapes, 1, 2).tensors[0].present);
}

// Fails if GPT-2's matrices, which are stored transposed, are split along the wrong dimension.
TEST(ParallelPlan, TransposedMatrices) {
  ModelConfig config = grouped(4, 4);
  config.model_type = "gpt2";
  const std::vector<TensorShape> shapes = {{"transformer.h.0.mlp.c_fc.weight", {32, 50}},
                                           {"transformer.h.0.mlp.c_proj.weight", {50, 32}}};
  const ParallelPlan plan = make_plan(config, shapes, 0, 2);
  EXPECT_EQ(plan.tensors[0].dim, 1U);
  EXPECT_EQ(plan.tensors[1].dim, 0U);
}

// Fails if experts are split according to the size of dense layers.
TEST(ParallelPlan, Experts) {
  ModelConfig config = grouped(4, 4);
  config.num_experts = 2;
  config.expert_size = 24;
  const std::vector<TensorShape> shapes = {
      {"model.layers.0.mlp.experts.1.gate_proj.weight", {24, 32}}};
  const ParallelPlan plan = make_plan(config, shapes, 1, 2);
  EXPECT_EQ(plan.tensors[0].parts, (std::vector<Slice>{{12, 12}}));
  EXPECT_EQ(plan.local.expert_size, 12);
}

// Fails if weights are split although a rule replicates them, or the error about a rule that cannot
// be applied does not name the weight.
TEST(ParallelPlan, Rules) {
  const std::vector<TensorShape> shapes = {{"model.layers.0.mlp.up_proj.weight", {50, 32}},
                                           {"model.layers.0.mlp.down_proj.weight", {32, 50}}};
  const ModelConfig config = grouped(4, 2);
  const ParallelPlan whole = make_plan(config, shapes, 0, 2, {{"*.mlp.*", ShardStyle::replicated}});
  EXPECT_FALSE(whole.feed_forward);
  EXPECT_EQ(whole.local.intermediate_size, 50);
  EXPECT_ERROR(make_plan(config, shapes, 0, 2, {{"*up_proj*", ShardStyle::row}}), invalid_argument,
               "weight model.layers.0.mlp.up_proj.weight does not support this style; got row");
  EXPECT_ERROR(make_plan(config, shapes, 0, 2, {{"*up_proj*", ShardStyle::replicated}}),
               invalid_argument,
               "weight model.layers.0.mlp.down_proj.weight is not split like the other");
}

// Fails if a pattern matches the wrong names, or matching takes exponential time for a pattern with
// many asterisks.
TEST(ParallelPlan, Patterns) {
  const std::vector<TensorShape> shapes = {{"model.layers.0.mlp.up_proj.weight", {50, 32}},
                                           {"model.layers.0.mlp.down_proj.weight", {32, 50}}};
  const auto taken = [&](const std::string& pattern) {
    return !make_plan(grouped(4, 2), shapes, 0, 2, {{pattern, ShardStyle::replicated}})
                .feed_forward;
  };
  for (const char* fits : {"*", "model.layers.0.mlp.*", "*.weight", "*mlp*weight", "**proj.weight*",
                           "model*l*p*proj*"})
    EXPECT_TRUE(taken(fits)) << fits;
  for (const char* other : {"", "model", "*.bias", "weight", "model.layers.1*", "*mlp*mlp*"})
    EXPECT_FALSE(taken(other)) << other;
  std::string stars = "*";
  for (int i = 0; i < 40; ++i) stars += "a*";
  const std::vector<TensorShape> long_name = {{std::string(4000, 'a') + ".weight", {1}}};
  make_plan(grouped(4, 2), long_name, 0, 2, {{stars + "b", ShardStyle::replicated}});
}

// Fails if a rank without heads is not rejected before the computation.
TEST(ParallelPlan, TooManyRanks) {
  EXPECT_ERROR(
      make_plan(grouped(4, 2), {{"model.layers.0.self_attn.q_proj.weight", {32, 32}}}, 0, 5),
      invalid_argument,
      "weight model.layers.0.self_attn.q_proj.weight is too small for this number of ranks; got 5 "
      "ranks");
}

// Fails if ranks split a feed-forward network within a quantization group although that is
// avoidable. If there are fewer groups than ranks, the group size is reduced to 64 or 32. If that
// is impossible, the split ignores groups.
TEST(ParallelPlan, GroupsStayWhole) {
  ModelConfig config = grouped(4, 2);
  const auto cut = [&](std::int64_t inner, int size, std::int64_t group) {
    config.intermediate_size = inner;
    std::vector<Slice> out;
    for (int rank = 0; rank < size; ++rank) {
      const ParallelPlan plan = make_plan(
          config, {{"model.layers.0.mlp.down_proj.weight", {32, inner}}}, rank, size, {}, group);
      EXPECT_EQ(plan.local.intermediate_size, plan.tensors[0].parts[0].count);
      out.push_back(plan.tensors[0].parts[0]);
    }
    return out;
  };
  EXPECT_EQ(cut(896, 2, 128), (std::vector<Slice>{{0, 512}, {512, 384}}));
  EXPECT_EQ(cut(896, 2, 0), (std::vector<Slice>{{0, 448}, {448, 448}}));
  EXPECT_EQ(cut(256, 3, 128), (std::vector<Slice>{{0, 128}, {128, 64}, {192, 64}}));
  EXPECT_EQ(cut(96, 3, 96), (std::vector<Slice>{{0, 32}, {32, 32}, {64, 32}}));
  EXPECT_EQ(cut(96, 4, 32), (std::vector<Slice>{{0, 24}, {24, 24}, {48, 24}, {72, 24}}));
  // Experts are not quantized.
  config.expert_size = 896;
  config.num_experts = 2;
  const ParallelPlan plan = make_plan(
      config, {{"model.layers.0.mlp.experts.1.down_proj.weight", {32, 896}}}, 0, 2, {}, 128);
  EXPECT_EQ(plan.tensors[0].parts[0].count, 448);
  EXPECT_EQ(plan.local.expert_size, 448);
}

// Fails if two different plans have the same key in the cache of quantized models.
TEST(ParallelPlan, KeysDiffer) {
  const std::vector<TensorShape> shapes = {{"model.layers.0.mlp.down_proj.weight", {32, 256}}};
  ModelConfig config = grouped(4, 2);
  config.intermediate_size = 256;
  const StyleRule rule{"*down*", ShardStyle::replicated};
  const std::set<std::string> keys = {
      make_plan(config, shapes, 0, 2).key, make_plan(config, shapes, 1, 2).key,
      make_plan(config, shapes, 0, 3).key, make_plan(config, shapes, 0, 2, {}, 64).key,
      make_plan(config, shapes, 0, 2, {rule}).key};
  EXPECT_EQ(keys.size(), 5U);
}

}  // namespace
}  // namespace anyaccel::llm
