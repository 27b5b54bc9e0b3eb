// Runs commands on a CausalLM and writes tensors for Python tests to compare. usage:
// causal_lm_probe FILE, with one command per line:
//
//   load FOLDER [bits=N] [dtype=NAME]     read a model
//   random FOLDER SEED                    create a model from the folder's config.json
//   train 0|1, checkpointing 0|1, dtype NAME, reseed N
//   inject [r=N] [alpha=N] [dropout=P] [targets=a,b] [rslora=1] [seed=N]
//   load_adapter FOLDER, save_adapter FOLDER, merge, unmerge, remove, save FOLDER
//   step IN OUT [logits=0] [items=N]      forward and backward; IN has the input's tensors
//   descend LR                            subtract the gradients
//   generate OUT COUNT ID...              greedy ids
//
// Tensors are in files of torch.save(). "step" writes loss, logits, parameters and gradients.
#include <ATen/core/Dict.h>
#include <ATen/ops/tensor.h>
#include <anyaccel/anyaccel.h>
#include <anyaccel/llm/generate.h>
#include <anyaccel/llm/lora.h>
#include <torch/serialize.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

namespace {

using namespace anyaccel;
using namespace anyaccel::llm;
using Tensors = c10::Dict<std::string, at::Tensor>;
using Words = std::vector<std::string>;

Tensors read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  Tensors out;
  for (const auto& item : torch::pickle_load(bytes).toGenericDict())
    out.insert(item.key().toStringRef(), item.value().toTensor());
  return out;
}

void write(const std::string& path, const Tensors& tensors) {
  const std::vector<char> bytes = torch::pickle_save(tensors);
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

at::Tensor host(const at::Tensor& tensor) {
  return tensor.detach().to(c10::Device(c10::kCPU)).contiguous();
}

class Probe {
 public:
  void run(const Words& words) {
    const std::string& name = words[0];
    const std::string first = words.size() > 1 ? words[1] : "";
    if (name == "load") {
      model_ =
          CausalLM::from_pretrained(first, {.dtype = parse_dtype(option(words, "dtype", "float32")),
                                            .bits = std::stoi(option(words, "bits", "0")),
                                            .cache = false});
    } else if (name == "random") {
      model_ = CausalLM::from_config(std::filesystem::path(first), std::stoull(words[2]));
    } else if (name == "train") {
      model_->train(first == "1");
    } else if (name == "checkpointing") {
      model_->gradient_checkpointing(first == "1");
    } else if (name == "dtype") {
      model_->to(parse_dtype(first));
    } else if (name == "reseed") {
      get_accelerator().manual_seed(std::stoull(first));
    } else if (name == "inject") {
      inject(words);
    } else if (name == "load_adapter") {
      load_adapter(model_, first);
    } else if (name == "save_adapter") {
      save_adapter(model_, first);
    } else if (name == "merge") {
      merge_adapter(model_);
    } else if (name == "unmerge") {
      unmerge_adapter(model_);
    } else if (name == "remove") {
      remove_adapter(model_);
    } else if (name == "save") {
      model_->save_pretrained(first);
    } else if (name == "step") {
      step(words);
    } else if (name == "descend") {
      descend(std::stod(first));
    } else if (name == "generate") {
      generate_ids(words);
    } else {
      throw std::runtime_error("unknown command " + name);
    }
  }

 private:
  static std::string option(const Words& words, const std::string& name, std::string absent) {
    for (const std::string& word : words) {
      if (word.rfind(name + "=", 0) == 0) return word.substr(name.size() + 1);
    }
    return absent;
  }

  void inject(const Words& words) {
    LoraConfig config;
    config.r = std::stoll(option(words, "r", "8"));
    config.lora_alpha = std::stod(option(words, "alpha", "8"));
    config.lora_dropout = std::stod(option(words, "dropout", "0"));
    config.use_rslora = option(words, "rslora", "0") == "1";
    config.seed = std::stoull(option(words, "seed", "0"));
    std::istringstream targets(option(words, "targets", ""));
    for (std::string target; std::getline(targets, target, ',');)
      config.target_modules.push_back(target);
    for (const std::string& module : inject_adapter(model_, config)) std::cout << module << '\n';
  }

  void step(const Words& words) {
    const Tensors in = read(words[1]);
    const auto get = [&](const char* name) {
      return in.contains(name) ? in.at(name) : at::Tensor();
    };
    CausalLMInput input;
    input.ids = get("ids");
    input.labels = get("labels");
    input.attention_mask = get("attention_mask");
    input.position_ids = get("position_ids");
    input.sequence_ids = get("sequence_ids");
    input.logits = option(words, "logits", "1") == "1";
    input.num_items_in_batch = std::stod(option(words, "items", "0"));
    model_->zero_grad();
    const CausalLMOutput output = model_->forward(input);
    if (output.loss.defined() && output.loss.requires_grad()) output.loss.backward();
    Tensors out;
    out.insert("count", at::tensor(CausalLMImpl::label_count(input)));
    if (output.loss.defined()) out.insert("loss", host(output.loss));
    if (output.logits.defined()) out.insert("logits", host(output.logits));
    for (const auto& item : model_->named_parameters()) {
      out.insert("parameter " + item.key(), host(item.value()));
      if (item.value().grad().defined())
        out.insert("gradient " + item.key(), host(item.value().grad()));
    }
    write(words[2], out);
  }

  void descend(double lr) {
    const c10::AutoGradMode no_gradient(false);
    for (at::Tensor& parameter : model_->parameters()) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), lr);
    }
  }

  void generate_ids(const Words& words) {
    std::vector<std::int64_t> prompt;
    for (std::size_t i = 3; i < words.size(); ++i) prompt.push_back(std::stoll(words[i]));
    GenerateOptions options;
    options.max_new_tokens = std::stoll(words[2]);
    options.sampling.temperature = 0;
    Tensors out;
    out.insert("ids", at::tensor(generate(model_->model(), nullptr, prompt, options).ids));
    write(words[1], out);
  }

  CausalLM model_ = nullptr;
};

}  // namespace

int main(int count, char** words) try {
  if (count != 2) throw std::runtime_error("usage: causal_lm_probe FILE");
  std::ifstream commands(words[1]);
  Probe probe;
  for (std::string line; std::getline(commands, line);) {
    std::istringstream in(line);
    const Words parts{std::istream_iterator<std::string>(in), {}};
    if (!parts.empty()) probe.run(parts);
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
