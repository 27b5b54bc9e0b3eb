#include "anyaccel/llm/causal_lm.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "anyaccel/llm/lora.h"
#include "llm/causal/batch.h"
#include "llm/causal/layout.h"
#include "llm/causal/loss.h"
#include "llm/checkpoint/training_config.h"
#include "unit/llm/small_config.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

at::Tensor numbers(std::vector<std::int64_t> values) { return at::tensor(values); }

std::vector<std::int64_t> list(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1}).contiguous();
  const auto* data = flat.const_data_ptr<std::int64_t>();
  return {data, data + flat.numel()};
}

using List = std::vector<std::int64_t>;

CausalLMInput input(std::int64_t rows, std::int64_t time) {
  CausalLMInput out;
  out.ids = at::arange(rows * time).view({rows, time}).remainder(20);
  out.labels = out.ids.clone();
  return out;
}

// Fails if padding is kept, or if tokens get the wrong positions or targets.
TEST(TokenBatch, DropsPadding) {
  CausalLMInput in = input(2, 4);
  in.attention_mask = numbers({0, 1, 1, 1, 1, 1, 0, 0}).view({2, 4});
  const TokenBatch batch = make_batch(in, small_config(), c10::Device(c10::kCPU));
  EXPECT_EQ(list(batch.ids), (List{1, 2, 3, 4, 5}));
  EXPECT_EQ(list(batch.positions), (List{1, 2, 3, 0, 1}));
  EXPECT_EQ(list(batch.targets), (List{2, 3, -100, 5, -100}));
  EXPECT_EQ(list(batch.index), (List{1, 2, 3, 4, 5}));
  EXPECT_EQ(list(batch.counted), (List{0, 1, 3}));
  EXPECT_EQ(batch.lengths, (List{3, 2}));
  EXPECT_EQ(batch.span, 4);
  EXPECT_EQ(CausalLMImpl::label_count(in), 3);
}

// Fails if packed sequences of one length are not computed as rows, or the first token of a
// sequence is a target of the previous one.
TEST(TokenBatch, PackedSequencesOfOneLengthAreRows) {
  CausalLMInput in = input(1, 6);
  in.sequence_ids = numbers({7, 7, 7, 2, 2, 2}).view({1, 6});
  const TokenBatch batch = make_batch(in, small_config(), c10::Device(c10::kCPU));
  EXPECT_EQ(batch.ids.sizes(), (List{2, 3}));
  EXPECT_FALSE(batch.positions.defined());
  EXPECT_FALSE(batch.index.defined());
  EXPECT_EQ(list(batch.targets), (List{1, 2, -100, 4, 5, -100}));
  EXPECT_EQ(CausalLMImpl::label_count(in), 4);
}

// Fails if OPT's positions count padding, or positions that restart do not begin a sequence.
TEST(TokenBatch, Positions) {
  ModelConfig opt = small_config();
  opt.position_offset = 2;
  CausalLMInput in = input(1, 4);
  in.attention_mask = numbers({0, 0, 1, 1}).view({1, 4});
  EXPECT_FALSE(make_batch(in, opt, c10::Device(c10::kCPU)).positions.defined());
  in = input(1, 5);
  in.position_ids = numbers({3, 4, 5, 0, 1}).view({1, 5});
  EXPECT_EQ(make_batch(in, opt, c10::Device(c10::kCPU)).lengths, (List{3, 2}));
}

/// Compares the largest difference with the largest value.
void expect_close(const at::Tensor& got, const at::Tensor& want, double tolerance) {
  const double difference = got.sub(want).abs().max().item<double>();
  EXPECT_LT(difference, tolerance * want.abs().max().item<double>());
}

// Fails if the loss in chunks, its gradients or its soft cap differ from the loss of all logits in
// float64. The vocabulary is so large that two chunks are needed, of 279 and of 21 tokens.
// The gradient of a hidden state is a sum of 60,000 terms that nearly cancel, so its rounding error
// is large: up to 1.7e-4 here, and 2.1e-4 for torch's float32.
TEST(LinearCrossEntropy, EqualsDenseLoss) {
  for (const double cap : {0.0, 4.0}) {
    for (const double divisor : {0.0, 17.0}) {
      at::Tensor hidden = at::randn({300, 3}).set_requires_grad(true);
      at::Tensor head = at::randn({60000, 3}).set_requires_grad(true);
      const at::Tensor targets = at::randint(60000, {300}, at::kLong);
      targets.narrow(0, 100, 50).fill_(-100);
      const at::Tensor hidden64 = hidden.detach().to(at::kDouble).set_requires_grad(true);
      const at::Tensor head64 = head.detach().to(at::kDouble).set_requires_grad(true);
      at::Tensor logits = hidden64.matmul(head64.t());
      if (cap > 0) logits = logits.div(cap).tanh().mul(cap);
      const at::Tensor sum = at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, -100);
      const at::Tensor want = sum.div(divisor > 0 ? divisor : 250.0);
      want.mul(3).backward();
      const at::Tensor got = linear_cross_entropy(hidden, head, {}, targets, cap, divisor);
      got.mul(3).backward();
      EXPECT_NEAR(got.item<double>(), want.item<double>(), 1e-4);
      expect_close(hidden.grad(), hidden64.grad(), 1e-3);
      expect_close(head.grad(), head64.grad(), 1e-5);
    }
  }
}

// Fails if the loss of a batch whose labels are all -100 is not NaN, as in torch.
TEST(LinearCrossEntropy, NoTargets) {
  const at::Tensor none = at::full({0}, -100, at::kLong);
  EXPECT_TRUE(std::isnan(
      linear_cross_entropy(at::randn({0, 3}), at::randn({5, 3}), {}, none, 0, 0).item<double>()));
}

// Fails if parameters do not share memory with the model that generates, or memory that
// set_data() replaced is not copied back.
TEST(CausalLM, ParametersAreTheModelsWeights) {
  auto model = CausalLM::from_config(small_config(), 1);
  const at::Tensor before = model->model().logits({1, 2, 3});
  at::Tensor query = model->named_parameters()["model.layers.0.self_attn.q_proj.weight"];
  {
    const c10::AutoGradMode no_gradient(false);
    query.mul_(2);
  }
  const at::Tensor after = model->model().logits({1, 2, 3});
  EXPECT_FALSE(at::allclose(before, after));
  query.set_data(query.detach().div(2));
  EXPECT_TRUE(at::equal(model->model().logits({1, 2, 3}), after));
  const at::Tensor restored = model->forward({.ids = numbers({1, 2, 3}).unsqueeze(0)}).logits;
  EXPECT_TRUE(at::allclose(restored.squeeze(0), before, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(model->model().logits({1, 2, 3}), before, 1e-4, 1e-5));
}

// Fails if freezing one of the parameters that share a matrix changes the others' gradients.
TEST(CausalLM, FreezesParts) {
  auto model = CausalLM::from_config(small_config(), 1);
  const CausalLMInput in = input(2, 5);
  const std::string prefix = "model.layers.1.self_attn.";
  auto parameters = model->named_parameters();
  model->forward(in).loss.backward();
  const at::Tensor value = parameters[prefix + "v_proj.weight"].grad().clone();
  model->zero_grad();
  parameters[prefix + "k_proj.weight"].set_requires_grad(false);
  model->forward(in).loss.backward();
  EXPECT_FALSE(parameters[prefix + "k_proj.weight"].grad().defined());
  EXPECT_TRUE(at::equal(parameters[prefix + "v_proj.weight"].grad(), value));
}

// Fails if to() breaks the sharing, or accepts a device that the model cannot use.
TEST(CausalLM, Converts) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = true;
  auto model = CausalLM::from_config(config, 1);
  model->to(at::kDouble);
  model->forward(input(2, 5)).loss.backward();
  for (const auto& item : model->named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), at::kDouble) << item.key();
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
  EXPECT_ERROR(model->to(torch::Device(c10::kMeta)), unsupported, "meta");
}

// Fails if merging changes the output, or if unmerging does not restore exact numbers.
TEST(Lora, MergesAndUnmerges) {
  auto model = CausalLM::from_config(small_config(), 1);
  EXPECT_ERROR(merge_adapter(model), invalid_state, "inject_adapter()");
  const auto modules = inject_adapter(model, {.r = 2, .target_modules = {"o_proj", "v_proj"}});
  EXPECT_EQ(modules, (std::vector<std::string>{
                         "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.o_proj",
                         "model.layers.1.self_attn.v_proj", "model.layers.1.self_attn.o_proj"}));
  {
    const c10::AutoGradMode no_gradient(false);
    for (const auto& item : model->named_parameters()) {
      EXPECT_EQ(item.value().requires_grad(), item.key().find("lora_") != std::string::npos);
      if (item.key().find("lora_B") != std::string::npos) item.value().fill_(0.1);
    }
  }
  const at::Tensor before = model->model().logits({1, 2, 3});
  merge_adapter(model);
  EXPECT_TRUE(adapter_merged(model));
  EXPECT_TRUE(at::allclose(model->model().logits({1, 2, 3}), before, 1e-4, 1e-5));
  unmerge_adapter(model);
  EXPECT_TRUE(at::allclose(model->model().logits({1, 2, 3}), before, 1e-4, 1e-5));
  remove_adapter(model);
  EXPECT_FALSE(has_adapter(model));
  EXPECT_EQ(model->parameters().size(),
            CausalLM::from_config(small_config(), 1)->parameters().size());
}

// Fails if a family's dropout rates or padding id are read from different keys than in
// transformers.
TEST(TrainingConfig, Families) {
  const auto read = [](const std::string& text) {
    return read_training_config(parse_json(text, "test"), "test");
  };
  const TrainingConfig gpt2 =
      read(R"({"model_type":"gpt2","vocab_size":9,"attn_pdrop":0.3,"pad_token_id":2})");
  EXPECT_EQ(gpt2.attention_dropout, 0.3);
  EXPECT_EQ(gpt2.residual_dropout, 0.1);
  EXPECT_EQ(gpt2.embedding_dropout, 0.1);
  EXPECT_EQ(gpt2.padding_id, -1);
  const TrainingConfig opt = read(R"({"model_type":"opt","vocab_size":9,"layerdrop":0.2})");
  EXPECT_EQ(opt.residual_dropout, 0.1);
  EXPECT_EQ(opt.layer_drop, 0.2);
  EXPECT_EQ(opt.padding_id, 1);
  EXPECT_EQ(read(R"({"model_type":"phi3","vocab_size":9})").padding_id, -1);
  EXPECT_EQ(read(R"({"model_type":"llama","vocab_size":9,"pad_token_id":3})").padding_id, 3);
  EXPECT_ERROR(read(R"({"model_type":"llama","vocab_size":9,"attention_dropout":1})"), corrupt,
               "attention_dropout");
}

}  // namespace
}  // namespace anyaccel::llm
