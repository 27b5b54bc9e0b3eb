#include "anyaccel/llm/module_parallel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "anyaccel/accelerator.h"
#include "anyaccel/registry.h"
#include "unit/comm/ranks.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::llm {
namespace {

using torch::Tensor;

constexpr std::int64_t kWide = 24, kHead = 4, kTokens = 17;

/// A user-defined module with a fused query-key-value matrix, a norm, a gated feed-forward network
/// and a head that is tied to the embedding.
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("tokens", tokens);
    register_module("norm", norm);
    attention = register_module("attention", std::make_shared<torch::nn::Module>());
    attention->register_module("qkv", qkv);
    attention->register_module("out_proj", out_proj);
    mlp = register_module("mlp", std::make_shared<torch::nn::Module>());
    mlp->register_module("gate_up", gate_up);
    mlp->register_module("down_proj", down);
    register_module("score", score);
  }
  Tensor forward(const Tensor& ids) {
    Tensor x = tokens(ids);
    const auto parts = qkv(norm(x)).chunk(3, -1);
    const auto heads = [](const Tensor& t) {
      return t.view({t.size(0), t.size(1), -1, kHead}).transpose(1, 2);
    };
    const Tensor weights =
        at::softmax(at::matmul(heads(parts[0]), heads(parts[1]).transpose(2, 3)), -1);
    x = x + out_proj(at::matmul(weights, heads(parts[2])).transpose(1, 2).flatten(2));
    const auto halves = gate_up(x).chunk(2, -1);
    x = x + down(at::silu(halves[0]) * halves[1]);
    return at::cat({score(x), at::linear(x, tokens->weight.clone())}, -1);
  }
  torch::nn::Embedding tokens{torch::nn::EmbeddingOptions(kTokens, kWide).padding_idx(3)};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWide})};
  torch::nn::Linear qkv{kWide, 3 * kWide}, out_proj{kWide, kWide}, gate_up{kWide, 2 * 10},
      down{10, kWide}, score{kWide, 5};
  std::shared_ptr<torch::nn::Module> attention, mlp;
};
TORCH_MODULE(Block);

/// The part of a full weight or gradient that a rank holds: rows or columns according to the plan,
/// taken from each part of a fused weight.
Tensor part_of(const Tensor& whole, const Tensor& local, int fused, int rank, int ranks,
               std::int64_t unit) {
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    if (whole.size(dim) == local.size(dim)) continue;
    std::vector<Tensor> parts;
    for (const Tensor& one : whole.chunk(fused, dim)) {
      const std::int64_t units = one.size(dim) / unit, most = units % ranks;
      const std::int64_t begin = rank * (units / ranks) + std::min<std::int64_t>(rank, most);
      parts.push_back(
          one.narrow(dim, begin * unit, (units / ranks + (rank < most ? 1 : 0)) * unit));
    }
    return at::cat(parts, dim);
  }
  return whole;
}

void expect_near(const Tensor& got, const Tensor& want, const std::string& what,
                 double limit = 1e-10) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  EXPECT_LT((got - want).abs().max().item<double>(), limit) << what;
}

/// Compares the forward pass, gradients and optimizer steps of a sharded module with those of the
/// full module.
template <typename Holder, typename Input, typename Facts>
void compare(const Input& host_input, const ModuleParallelOptions& options, const Facts& facts) {
  const auto device = get_accelerator().torch_device();
  const Tensor input = host_input.to(device);
  torch::manual_seed(1);
  Holder whole, split;
  whole->to(device, at::kDouble);
  split->to(device, at::kDouble);
  {
    const torch::NoGradGuard no_gradient;
    for (const auto& parameter : whole->named_parameters())
      split->named_parameters()[parameter.key()].copy_(parameter.value());
  }
  auto group = std::make_shared<comm::ProcessGroup>(comm::init_process_group());
  const int rank = group->rank(), ranks = group->size();
  tensor_parallel(*split, group, options);
  torch::optim::SGD both[] = {torch::optim::SGD(whole->parameters(), 1e-3),
                              torch::optim::SGD(split->parameters(), 1e-3)};
  for (int step = 0; step < 2; ++step) {
    const Tensor want = whole->forward(input), got = split->forward(input);
    expect_near(got, want, "forward");
    const Tensor scale = at::arange(want.numel(), want.options()).view_as(want).sin();
    whole->zero_grad();
    split->zero_grad();
    (want * scale).sum().backward();
    (got * scale).sum().backward();
    const auto locals = split->named_parameters();
    for (const auto& parameter : whole->named_parameters()) {
      const std::string& name = parameter.key();
      const auto [fused, unit] = facts(name);
      const Tensor& local = locals[name];
      expect_near(local.grad(), part_of(parameter.value().grad(), local, fused, rank, ranks, unit),
                  name);
    }
    for (auto& optimizer : both) optimizer.step();
  }
  split->to(at::kFloat);
  const Tensor single = torch::is_floating_point(input) ? input.to(at::kFloat) : input;
  expect_near(split->forward(single).to(at::kDouble), whole->forward(input), "after to()", 1e-3);
  group->barrier();
  if (rank == 0) test::wait_for_other_ranks();
}

using Facts = std::pair<int, std::int64_t>;

// Fails if an all-reduce is missing or repeated in the forward or backward pass, or a fused weight,
// a head or a bias is split incorrectly. Also covers padding ids, an optimizer and to().
TEST(ModuleParallel, UserDefinedModule) {
  for (const int ranks : {2, 3, 4}) {
    for (const int status : test::in_processes(ranks, [](int) {
           set_accelerator("cpu");
           const Tensor ids = at::arange(12).mul(5).remainder(kTokens).view({2, 6});
           compare<Block>(ids, {.rules = {}, .head_dim = kHead}, [](const std::string& name) {
             if (name.find("qkv") != std::string::npos) return Facts{3, kHead};
             if (name.find("out_proj") != std::string::npos) return Facts{1, kHead};
             return Facts{name.find("gate_up") != std::string::npos ? 2 : 1, 1};
           });
         }))
      EXPECT_EQ(status, 0) << ranks;
  }
}

struct StackImpl : torch::nn::Module {
  StackImpl() {
    torch::nn::TransformerEncoderLayerOptions options(8, 2);
    layer = register_module(
        "layer", torch::nn::TransformerEncoderLayer(options.dim_feedforward(7).dropout(0)));
    tail = register_module("tail", torch::nn::Sequential(torch::nn::Linear(8, 7), torch::nn::ReLU(),
                                                         torch::nn::Linear(7, 3)));
  }
  Tensor forward(const Tensor& x) { return tail->forward(layer->forward(x).flatten(0, 1)); }
  torch::nn::TransformerEncoderLayer layer{nullptr};
  torch::nn::Sequential tail{nullptr};
};
TORCH_MODULE(Stack);

// Fails if communication is missing for LibTorch's modules in containers. Covers two-dimensional
// inputs, for which torch uses a fused matrix product.
TEST(ModuleParallel, StockModulesByRules) {
  const auto names = registered_backends();  // a build may lack the simulator
  for (const auto& [accelerator, ranks] :
       {std::pair("cpu", 2), std::pair("cpu", 3), std::pair("sim", 2)}) {
    if (std::find(names.begin(), names.end(), accelerator) == names.end()) continue;
    const test::ScopedEnv devices("SIM_DEVICES", "2");
    for (const int status : test::in_processes(ranks, [name = accelerator](int) {
           set_accelerator(name);
           const Tensor x = at::arange(4 * 3 * 8, at::kDouble).sin().view({4, 3, 8});
           ModuleParallelOptions options;
           options.rules = {{"tail.0", ModuleStyle::column}, {"tail.2", ModuleStyle::row}};
           compare<Stack>(x, options, [](const std::string&) { return Facts{1, 1}; });
         }))
      EXPECT_EQ(status, 0) << ranks;
  }
}

// Fails if the plan that is derived from names and sizes changes, or a rule that cannot be applied
// is accepted.
TEST(ModuleParallel, Plan) {
  const Block block;
  std::map<std::string, ModuleShard> plan;
  for (const ModuleShard& shard : module_plan(*block, 0, 3, {.rules = {}, .head_dim = kHead}))
    plan[shard.name] = shard;
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(plan["attention.qkv"].local, (Sizes{3 * 2 * kHead, kWide}));
  EXPECT_EQ(plan["attention.out_proj"].local, (Sizes{kWide, 2 * kHead}));
  EXPECT_EQ(plan["mlp.gate_up"].style, ModuleStyle::column);
  EXPECT_EQ(plan["mlp.down_proj"].local, (Sizes{kWide, 4}));
  EXPECT_EQ(plan["score"].style, ModuleStyle::gathered);
  EXPECT_EQ(plan["tokens"].local, (Sizes{6, kWide}));
  // Without a head dimension, attention cannot be split.
  for (const ModuleShard& shard : module_plan(*block, 0, 3)) {
    if (!shard.name.starts_with("attention")) continue;
    EXPECT_EQ(shard.style, ModuleStyle::gathered) << shard.name;
  }
  EXPECT_ERROR(module_plan(*block, 0, 2, {.rules = {{"none", ModuleStyle::row}}}), invalid_argument,
               "none");
  EXPECT_ERROR(module_plan(*block, 0, 2, {.rules = {{"tokens", ModuleStyle::row}}}),
               invalid_argument, "tokens");
  EXPECT_ERROR(module_plan(*block, 0, 4, {.rules = {{"mlp.down_proj", ModuleStyle::row, 1, 4}}}),
               invalid_argument, "a multiple of fused * unit, 1 * 4");
  EXPECT_ERROR(module_plan(*block, 2, 2), invalid_argument, "rank");
}

}  // namespace
}  // namespace anyaccel::llm
