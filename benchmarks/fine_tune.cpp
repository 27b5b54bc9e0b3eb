// Fine-tunes a model as fine_tune.py does with transformers: `bench_fine_tune MODEL fp32|bf16
// full|lora BATCH STEPS`. Prints tokens per second, peak memory, the last loss and the milliseconds
// of each phase. `bf16_master` instead of bf16 keeps float32 copies of the weights.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "anyaccel/llm/causal_lm.h"
#include "anyaccel/llm/lora.h"
#include "anyaccel/ops/cpu_adam.h"
#include "timing.h"

namespace {

using anyaccel::llm::CausalLM;

constexpr std::int64_t kTime = 512;
constexpr std::int64_t kVocabulary = 32000;

at::Tensor ids_of(std::int64_t batch, std::int64_t step) {
  at::Tensor ids = at::empty({batch, kTime}, at::kLong);
  auto* at = ids.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < batch; ++row)
    for (std::int64_t i = 0; i < kTime; ++i)
      *at++ = (step * 104729 + row * 7919 + i * i * 31 + i * 17) % kVocabulary;
  return ids;
}

/// AdamW with the moments in the parameters' dtype, as in torch. With `master`, it updates float32
/// copies of the weights, and the moments are float32 too.
class Optimizer {
 public:
  Optimizer(const CausalLM& model, bool master)
      : adam_({.lr = 1e-4, .weight_decay = 0.01}), master_(master) {
    for (const at::Tensor& parameter : model->parameters()) {
      if (!parameter.requires_grad()) continue;
      parameters_.push_back(parameter);
      values_.push_back(master ? parameter.detach().to(at::kFloat) : parameter.detach());
      exp_avg_.push_back(at::zeros_like(values_.back()));
      exp_avg_sq_.push_back(at::zeros_like(values_.back()));
    }
  }

  void step() {
    std::vector<at::Tensor> grads;
    for (at::Tensor& parameter : parameters_) {
      at::Tensor grad = parameter.grad();
      grads.push_back(master_ ? grad.to(at::kFloat) : grad);
      parameter.mutable_grad().reset();
    }
    adam_.step(values_, grads, exp_avg_, exp_avg_sq_);
    if (!master_) return;
    const c10::AutoGradMode no_grad(false);
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(values_[i]);
  }

 private:
  anyaccel::ops::CPUAdam adam_;
  bool master_;
  std::vector<at::Tensor> parameters_, values_, exp_avg_, exp_avg_sq_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr,
                 "usage: bench_fine_tune MODEL fp32|bf16|bf16_master full|lora BATCH STEPS\n");
    return 2;
  }
  const std::string kind = argv[2];
  const std::int64_t batch = std::stoll(argv[4]), steps = std::stoll(argv[5]);
  CausalLM model =
      CausalLM::from_pretrained(argv[1], {.dtype = kind == "fp32" ? at::kFloat : at::kBFloat16});
  if (std::string(argv[3]) == "lora")
    inject_adapter(model, {.r = 16, .lora_alpha = 32, .target_modules = {"all-linear"}});
  model->train();
  Optimizer optimizer(model, kind == "bf16_master");
  using Clock = std::chrono::steady_clock;
  double forward = 0, backward = 0, update = 0, last = 0;
  const auto ms = [](auto begin, auto end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
  };
  for (std::int64_t step = 0; step <= steps; ++step) {  // the first step warms up
    const at::Tensor ids = ids_of(batch, step);
    const auto begin = Clock::now();
    const at::Tensor loss = model->forward({.ids = ids, .labels = ids, .logits = false}).loss;
    const auto between = Clock::now();
    loss.backward();
    const auto end = Clock::now();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) continue;
    forward += ms(begin, between);
    backward += ms(between, end);
    update += ms(end, Clock::now());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto count = static_cast<double>(steps);
  benchmarks::Numbers numbers;
  numbers.add("tokens_per_second",
              count * static_cast<double>(batch * kTime) / (forward + backward + update) * 1e3);
  numbers.add("peak_mib", static_cast<double>(usage.ru_maxrss) / 1024);
  numbers.add("loss", last);
  numbers.add("forward_ms", forward / count);
  numbers.add("backward_ms", backward / count);
  numbers.add("optimizer_ms", update / count);
  numbers.print();
}
