// Trains a LoRA adapter over 8-bit weights, saves it in PEFT's format, and loads it again.
// usage: lora MODEL_FOLDER TEXT_FILE ADAPTER_FOLDER [STEPS]
#include <ATen/ops/tensor.h>
#include <anyaccel/anyaccel.h>
#include <anyaccel/llm/lora.h>
#include <anyaccel/llm/tokenizer.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

namespace llm = anyaccel::llm;

namespace {

double loss_of(llm::CausalLM& model, const at::Tensor& ids) {
  const c10::AutoGradMode no_gradient(false);
  model->eval();
  return model->forward({.ids = ids, .labels = ids, .logits = false}).loss.item<double>();
}

}  // namespace

int main(int count, char** words) try {
  if (count < 4)
    throw std::runtime_error("usage: lora MODEL_FOLDER TEXT_FILE ADAPTER_FOLDER [STEPS]");
  const int steps = count > 4 ? std::stoi(words[4]) : 20;
  const llm::CausalLMOptions options{.bits = 8};
  auto model = llm::CausalLM::from_pretrained(words[1], options);
  std::ifstream file(words[2]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::int64_t> tokens = llm::Tokenizer::load(words[1]).encode(text);
  const std::int64_t time = std::min<std::int64_t>(
      {256, model->config().max_positions, static_cast<std::int64_t>(tokens.size())});
  const at::Tensor ids = at::tensor(tokens).narrow(0, 0, time).unsqueeze(0);

  const auto modules = llm::inject_adapter(
      model, {.r = 8, .lora_alpha = 16, .lora_dropout = 0.05, .target_modules = {"all-linear"}});
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : model->parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  std::cout << modules.size() << " modules, " << trained.size() << " trained tensors\n";

  const double before = loss_of(model, ids);
  torch::optim::AdamW optimizer(trained, torch::optim::AdamWOptions(1e-2));
  model->train();
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model->forward({.ids = ids, .labels = ids, .logits = false}).loss.backward();
    optimizer.step();
  }
  const double after = loss_of(model, ids);
  llm::save_adapter(model, words[3]);

  auto again = llm::CausalLM::from_pretrained(words[1], options);
  llm::load_adapter(again, words[3], /*trainable=*/false);
  std::cout << "loss " << before << " to " << after << ", loaded " << loss_of(again, ids) << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
