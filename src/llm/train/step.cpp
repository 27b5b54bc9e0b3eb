#include "llm/train/step.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <limits>

namespace anyaccel::llm {

namespace {

/// Number of eager steps before the capture. During these steps, kernels choose their algorithms
/// and allocators reach their final size.
constexpr std::int64_t kWarmUpSteps = 2;

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

void put_back(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& values) {
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].detach().copy_(values[i]);
}

template <typename Work>
Graph record(Work work) {
  Accelerator& accelerator = get_accelerator();
  Graph graph = accelerator.create_graph();
  GraphCapture scope = accelerator.capture_to_graph(graph);
  work();
  scope.end();
  return graph;
}

}  // namespace

StepRunner::StepRunner(ModelState& model, AdamW& optimizer, GradScaler& scaler,
                       const TrainOptions& options, const BatchShare& share,
                       comm::ProcessGroup* group, comm::DataParallel* parallel)
    : model_(model),
      optimizer_(optimizer),
      scaler_(scaler),
      options_(options),
      weight_(share.weight),
      group_(group),
      parallel_(parallel),
      scaled_(options.dtype == c10::kHalf) {
  const c10::Device device = get_accelerator().torch_device();
  tokens_ = at::empty({share.count, model.config.max_positions + 1},
                      at::TensorOptions().dtype(c10::kLong).device(device));
  scale_ = at::ones({}, at::TensorOptions().dtype(c10::kFloat).device(device));
}

void StepRunner::forward_backward() {
  for (const at::Tensor& parameter : optimizer_.parameters()) parameter.mutable_grad().reset();
  const auto time = tokens_.size(1) - 1;
  at::Tensor logits;
  {
    // For graphs, disable autocast's cache of converted weights. The cache is host state, which a
    // replay does not update.
    const bool mixed = options_.dtype != c10::kFloat;
    const Autocast autocast = get_accelerator().autocast(options_.dtype, mixed, !options_.graph);
    logits = llama_forward(model_.weights, model_.config, model_.rope, tokens_.narrow(1, 0, time),
                           nullptr, false, masks_.empty() ? nullptr : &masks_);
  }
  const at::Tensor loss =
      at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(c10::kFloat),
                             tokens_.narrow(1, 1, time).reshape({-1}));
  loss_ = loss.detach();
  const at::Tensor weighted = weight_ == 1 ? loss : loss.mul(weight_);
  (scaled_ ? weighted.mul(scale_) : weighted).backward();
  if (parallel_) parallel_->finish();
}

/// The part of a step up to the point where the host must read a value.
void StepRunner::compute_gradients() {
  forward_backward();
  if (scaled_) {
    const c10::AutoGradMode no_grad(false);
    const std::vector<at::Tensor> gradients = optimizer_.gradients();
    at::_foreach_mul_(gradients, scale_.reciprocal());
    // Use the largest magnitude of each tensor: unlike a sum of squares, it cannot overflow.
    finite_ = at::isfinite(
                  at::stack(at::_foreach_norm(gradients, std::numeric_limits<double>::infinity())))
                  .all();
  }
  norm_ = optimizer_.gradient_norm();
  // Ranks with different numbers of threads sum in different orders. Using one rank's norm keeps
  // their weights bitwise equal.
  if (group_) group_->broadcast(norm_, 0);
  optimizer_.clip_gradients(norm_, options_.clip);
}

/// Updates the scale. Returns false if gradients overflowed and the update must be skipped.
bool StepRunner::accept_gradients() {
  if (!scaled_) return true;
  skipped_ = !finite_.item<bool>();
  scaler_.update(!skipped_);
  return !skipped_;
}

void StepRunner::run_eagerly() {
  compute_gradients();
  if (accept_gradients()) optimizer_.step();
}

void StepRunner::run_captured() {
  Accelerator& accelerator = get_accelerator();
  accelerator.replay_graph(*graph_);
  if (scaled_ && accept_gradients()) accelerator.replay_graph(*update_graph_);
}

void StepRunner::capture() {
  // Some devices execute work during a capture. Restore all tensors, so that the result is the same
  // on all devices.
  std::vector<at::Tensor> live = optimizer_.parameters();
  const AdamW::State& state = optimizer_.state();
  live.insert(live.end(), state.exp_avg.begin(), state.exp_avg.end());
  live.insert(live.end(), state.exp_avg_sq.begin(), state.exp_avg_sq.end());
  live.push_back(state.step);
  const std::vector<at::Tensor> before = copies(live);
  const Graph graph = record([this] {
    compute_gradients();
    if (!scaled_) optimizer_.step();
  });
  if (scaled_) update_graph_ = record([this] { optimizer_.step(); });
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
  if (scaled_) scale_.fill_(scaler_.get_scale());
  if (options_.graph && eager_steps_ >= kWarmUpSteps) {
    if (!graph_) capture();
    run_captured();
  } else {
    ++eager_steps_;
    run_eagerly();
  }
  return {loss_.item<double>(), norm_.item<double>(), skipped_};
}

}  // namespace anyaccel::llm
