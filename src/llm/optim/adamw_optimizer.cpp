#include "anyaccel/llm/adamw_optimizer.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <tuple>

#include "anyaccel/error.h"

namespace anyaccel::llm {
namespace {

AdamWOptions adamw_options(const optim::AdamOptions& options) {
  if (!options.adamw_mode() || !options.bias_correction())
    throw Error(ErrorCode::invalid_argument, "AdamWOptimizer",
                {.what = options.adamw_mode() ? "bias_correction is false" : "adamw_mode is false",
                 .want = "true",
                 .hint = "use anyaccel::optim::FusedAdam or CPUAdam"});
  return {.lr = options.lr(),
          .beta1 = std::get<0>(options.betas()),
          .beta2 = std::get<1>(options.betas()),
          .eps = options.eps(),
          .weight_decay = options.weight_decay()};
}

}  // namespace

AdamWOptimizer::AdamWOptimizer(const ParamGroups& groups, optim::AdamOptions defaults)
    : Optimizer(ParamGroups{}, std::make_unique<optim::AdamOptions>(std::move(defaults))) {
  for (const auto& group : groups) add_param_group(group);
}

void AdamWOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  const auto& options =
      static_cast<const optim::AdamOptions&>(group.has_options() ? group.options() : defaults());
  AdamW adamw(group.params(), adamw_options(options));
  Optimizer::add_param_group(group);
  // LibTorch merges a group's options with the defaults only for its own optimizers.
  if (group.has_options()) param_groups_.back().set_options(group.options().clone());
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    auto state = std::make_unique<optim::ParamState>();
    state->exp_avg(adamw.state().exp_avg[i]).exp_avg_sq(adamw.state().exp_avg_sq[i]);
    state_[group.params()[i].unsafeGetTensorImpl()] = std::move(state);
  }
  groups_.push_back({std::move(adamw), options.lr()});
}

double AdamWOptimizer::lr(std::size_t group) const {
  return static_cast<const optim::AdamOptions&>(param_groups_[group].options()).lr();
}

void AdamWOptimizer::update_lr() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (lr(i) == groups_[i].device_lr) continue;
    groups_[i].adamw.set_lr(lr(i));
    groups_[i].device_lr = lr(i);
  }
}

at::Tensor AdamWOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  update_lr();
  for (auto& group : groups_) group.adamw.step();
  return loss;
}

void AdamWOptimizer::save(torch::serialize::OutputArchive& archive) const {
  // Replays of a captured step advance only the step count on the device.
  for (const auto& group : groups_)
    for (const auto& parameter : group.adamw.parameters())
      static_cast<optim::ParamState&>(*state_.at(parameter.unsafeGetTensorImpl()))
          .step(group.adamw.state().step.item<std::int64_t>());
  torch::optim::serialize<optim::ParamState, optim::AdamOptions>(archive, *this);
}

void AdamWOptimizer::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<optim::ParamState, optim::AdamOptions>(archive, *this);
  // Copy the loaded state into the existing tensors, because a captured step uses them.
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    auto& adamw = groups_[i].adamw;
    AdamW::State state{{}, {}, adamw.state().step.clone(), adamw.state().lr};
    for (const auto& parameter : adamw.parameters()) {
      const auto& read =
          static_cast<const optim::ParamState&>(*state_.at(parameter.unsafeGetTensorImpl()));
      state.exp_avg.push_back(read.exp_avg());
      state.exp_avg_sq.push_back(read.exp_avg_sq());
      state.step.fill_(read.step());
    }
    adamw.load_state(state);
    for (std::size_t k = 0; k < adamw.parameters().size(); ++k)
      static_cast<optim::ParamState&>(*state_.at(adamw.parameters()[k].unsafeGetTensorImpl()))
          .exp_avg(adamw.state().exp_avg[k])
          .exp_avg_sq(adamw.state().exp_avg_sq[k]);
  }
  update_lr();
}

}  // namespace anyaccel::llm
