#include "llm/train/step.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace anyaccel::llm {

namespace {

/// Steps to run as they are before capture: kernels choose their algorithms and allocators settle.
constexpr std::int64_t kWarmUpSteps = 2;

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

void put_back(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& values) {
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].detach().copy_(values[i]);
}

}  // namespace

StepRunner::StepRunner(ModelState& model, AdamW& optimizer, GradScaler& scaler, const TrainOptions& options)
    : model_(model), optimizer_(optimizer), scaler_(scaler), options_(options) {
  if (options.graph && options.dtype == c10::kHalf) {
    throw Error(ErrorCode::unsupported, "train",
                {.what = "a captured step cannot scale its loss: the host decides there whether to skip",
                 .hint = "use --dtype bf16 or fp32 with --graph"});
  }
  const c10::Device device = get_accelerator().torch_device();
  tokens_ = at::empty({options.batch_size, model.config.max_positions + 1},
                      at::TensorOptions().dtype(c10::kLong).device(device));
}

void StepRunner::forward_backward() {
  for (const at::Tensor& parameter : optimizer_.parameters()) parameter.mutable_grad().reset();
  const auto time = tokens_.size(1) - 1;
  at::Tensor logits;
  {
    // The cache of cast weights lives on the host's side of a capture and would be empty at replay.
    const bool mixed = options_.dtype != c10::kFloat;
    const Autocast autocast = get_accelerator().autocast(options_.dtype, mixed, !options_.graph);
    logits = llama_forward(model_.weights, model_.config, model_.rope, tokens_.narrow(1, 0, time), nullptr, false,
                           masks_.empty() ? nullptr : &masks_);
  }
  const at::Tensor loss = at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(c10::kFloat),
                                                 tokens_.narrow(1, 1, time).reshape({-1}));
  loss_ = loss.detach();
  scaler_.scale(loss).backward();
}

void StepRunner::compute() {
  forward_backward();
  skipped_ = false;
  if (options_.dtype == c10::kHalf) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : optimizer_.parameters()) gradients.push_back(parameter.grad());
    skipped_ = !scaler_.unscale_(gradients);
    scaler_.update(!skipped_);
  }
  norm_ = optimizer_.clip_grad_norm(options_.clip);
  if (!skipped_) optimizer_.step();
}

void StepRunner::capture() {
  // Some devices run the work while they record it, others do not: values are put back, so both start alike.
  std::vector<at::Tensor> live = optimizer_.parameters();
  const AdamW::State& state = optimizer_.state();
  live.insert(live.end(), state.exp_avg.begin(), state.exp_avg.end());
  live.insert(live.end(), state.exp_avg_sq.begin(), state.exp_avg_sq.end());
  live.push_back(state.step);
  const std::vector<at::Tensor> before = copies(live);
  Accelerator& accelerator = get_accelerator();
  Graph graph = accelerator.create_graph();
  {
    GraphCapture scope = accelerator.capture_to_graph(graph);
    compute();
    scope.end();
  }
  put_back(live, before);
  graph_ = graph;
}

StepOutcome StepRunner::run(const at::Tensor& tokens, const DropoutMasks& masks, double lr) {
  tokens_.copy_(tokens);
  if (masks_.size() != masks.size()) {
    for (const at::Tensor& mask : masks)
      masks_.push_back(at::empty_like(mask, mask.options().device(tokens_.device())));
  }
  for (std::size_t i = 0; i < masks.size(); ++i) masks_[i].copy_(masks[i]);
  optimizer_.set_lr(lr);
  if (options_.graph && eager_steps_ >= kWarmUpSteps) {
    if (!graph_) capture();
    get_accelerator().replay_graph(*graph_);
  } else {
    ++eager_steps_;
    compute();
  }
  return {loss_.item<double>(), norm_.item<double>(), skipped_};
}

}  // namespace anyaccel::llm
