// Fine-tunes all weights of a Hugging Face checkpoint on a text file.
// usage: fine_tune MODEL_FOLDER TEXT_FILE OUTPUT_FOLDER [STEPS]
#include <ATen/ops/tensor.h>
#include <anyaccel/anyaccel.h>
#include <anyaccel/llm/causal_lm.h>
#include <anyaccel/llm/generate.h>
#include <anyaccel/llm/tokenizer.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace llm = anyaccel::llm;

int main(int count, char** words) try {
  if (count < 4)
    throw std::runtime_error("usage: fine_tune MODEL_FOLDER TEXT_FILE OUTPUT_FOLDER [STEPS]");
  const std::filesystem::path folder = words[1], output = words[3];
  const int steps = count > 4 ? std::stoi(words[4]) : 20;

  auto model = llm::CausalLM::from_pretrained(folder);
  const auto tokenizer = llm::Tokenizer::load(folder);
  std::ifstream file(words[2]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const at::Tensor ids = at::tensor(tokenizer.encode(text));

  // Rows of at most 256 tokens. Each row is one sequence without padding.
  const std::int64_t time =
      std::min<std::int64_t>({256, model->config().max_positions, ids.numel()});
  const std::int64_t rows = ids.numel() / time;
  const at::Tensor batches = ids.narrow(0, 0, rows * time).view({rows, time});
  constexpr std::int64_t batch = 4;

  model->train();
  model->gradient_checkpointing(true);  // less memory, more time
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    const std::int64_t begin = step * batch % rows;
    const at::Tensor part = batches.narrow(0, begin, std::min(batch, rows - begin));
    // With `.logits = false`, only a few hundred tokens' logits are in memory at a time.
    const auto out = model->forward({.ids = part, .labels = part, .logits = false});
    optimizer.zero_grad();
    out.loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    std::cout << "step " << step << ": loss " << out.loss.item<double>() << '\n';
  }

  model->eval();
  llm::GenerateOptions options;
  options.max_new_tokens = 16;
  options.sampling.temperature = 0;
  const std::vector<std::int64_t> prompt = tokenizer.encode(text.substr(0, 20));
  std::cout << "text: " << llm::generate(model->model(), &tokenizer, prompt, options).text << '\n';
  model->save_pretrained(output);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    if (std::filesystem::exists(folder / name))
      std::filesystem::copy_file(folder / name, output / name,
                                 std::filesystem::copy_options::overwrite_existing);
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
