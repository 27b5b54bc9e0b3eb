#include "anyaccel/llm/adamw.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorOptions.h>

#include <cmath>
#include <string>
#include <utility>

#include "anyaccel/error.h"

namespace anyaccel::llm {
namespace {

[[noreturn]] void fail(const char* where, std::string what, std::string got, std::string want) {
  throw Error(ErrorCode::invalid_argument, where,
              {.what = std::move(what), .got = std::move(got), .want = std::move(want)});
}

std::string shape_of(const at::Tensor& tensor) {
  std::string text = "[";
  for (const auto size : tensor.sizes())
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

void check_range(const char* name, double value, bool good, const char* want) {
  if (!good) fail("AdamW", std::string(name) + " is out of range", std::to_string(value), want);
}

void check_options(const AdamWOptions& o) {
  check_range("lr", o.lr, std::isfinite(o.lr) && o.lr >= 0, "a number of at least 0");
  check_range("beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "a number in [0, 1)");
  check_range("beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "a number in [0, 1)");
  check_range("eps", o.eps, std::isfinite(o.eps) && o.eps >= 0, "a number of at least 0");
  check_range("weight_decay", o.weight_decay, std::isfinite(o.weight_decay) && o.weight_decay >= 0,
              "a number of at least 0");
}

void check_parameter(const at::Tensor& parameter, std::size_t i, const at::Tensor& first) {
  const std::string name = "parameter " + std::to_string(i);
  if (!parameter.defined()) fail("AdamW", name + " is undefined", "", "a tensor");
  if (!parameter.is_floating_point() || parameter.layout() != c10::kStrided ||
      !parameter.is_leaf()) {
    fail("AdamW", name + " cannot be trained",
         std::string(c10::toString(parameter.scalar_type())) + " tensor",
         "a dense floating-point leaf tensor");
  }
  if (parameter.device() != first.device()) {
    fail("AdamW", name + " is not on the same device as parameter 0", parameter.device().str(),
         first.device().str());
  }
}

// A device uses the fused path if torch has a kernel for it.
bool has_fused_kernel(const at::Tensor& parameter) {
  static const auto op =
      c10::Dispatcher::singleton().findSchema({"aten::_fused_adamw_", "tensor_lr"});
  return op && op->hasKernelForDispatchKey(c10::computeDispatchKey(
                   parameter.scalar_type(), parameter.layout(), parameter.device()));
}

// 1 - beta^step in float32. Uses expm1, because 1 - pow() loses four digits in the first steps.
at::Tensor bias_correction(double beta, const at::Tensor& step) {
  if (beta == 0) return at::full({}, 1.0, step.options());
  return step.mul(std::log(beta)).expm1_().neg_();
}

}  // namespace

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options,
             const std::vector<bool>& decay)
    : parameters_(std::move(parameters)), options_(options) {
  check_options(options);
  if (parameters_.empty())
    fail("AdamW", "the parameter list is empty", "no parameters", "at least one");
  if (!decay.empty() && decay.size() != parameters_.size()) {
    fail("AdamW", "the decay mask does not have one entry per parameter",
         std::to_string(decay.size()), std::to_string(parameters_.size()));
  }
  const c10::AutoGradMode no_grad(false);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    check_parameter(parameters_[i], i, parameters_[0]);
    state_.exp_avg.push_back(at::zeros_like(parameters_[i]));
    state_.exp_avg_sq.push_back(at::zeros_like(parameters_[i]));
    const double weight_decay = decay.empty() || decay[i] ? options.weight_decay : 0.0;
    auto group = groups_.begin();
    while (group != groups_.end() &&
           (group->weight_decay != weight_decay ||
            parameters_[group->members[0]].scalar_type() != parameters_[i].scalar_type())) {
      ++group;
    }
    if (group == groups_.end()) group = groups_.insert(group, Group{weight_decay, {}});
    group->members.push_back(i);
  }
  const auto on_device = parameters_[0].options().dtype(c10::kFloat).requires_grad(false);
  state_.step = at::zeros({}, on_device);
  state_.lr = at::full({}, options.lr, on_device);
  fused_ = options.fused && has_fused_kernel(parameters_[0]);
}

void AdamW::step() {
  const c10::AutoGradMode no_grad(false);
  state_.step.add_(1);
  if (fused_) {
    for (const auto& group : groups_) step_fused(group);
    return;
  }
  const auto step_size = state_.lr.div(bias_correction(options_.beta1, state_.step)).neg_();
  const auto denominator_scale = bias_correction(options_.beta2, state_.step).rsqrt_();
  for (const auto& group : groups_) step_plain(group, step_size, denominator_scale);
}

void AdamW::step_fused(const Group& group) {
  std::vector<at::Tensor> values, grads, exp_avg, exp_avg_sq;
  for (const auto i : group.members) {
    const auto& grad = parameters_[i].grad();
    if (!grad.defined()) continue;
    values.push_back(parameters_[i]);
    grads.push_back(grad);
    exp_avg.push_back(state_.exp_avg[i]);
    exp_avg_sq.push_back(state_.exp_avg_sq[i]);
  }
  if (values.empty()) return;
  const std::vector<at::Tensor> steps(values.size(), state_.step);
  at::_fused_adamw_(values, grads, exp_avg, exp_avg_sq, {}, steps, state_.lr, options_.beta1,
                    options_.beta2, group.weight_decay, options_.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
}

void AdamW::step_plain(const Group& group, const at::Tensor& step_size,
                       const at::Tensor& denominator_scale) {
  const auto decay_factor = state_.lr.mul(-group.weight_decay).add_(1);
  for (const auto i : group.members) {
    const auto& grad = parameters_[i].grad();
    if (!grad.defined()) continue;
    auto& exp_avg = state_.exp_avg[i];
    auto& exp_avg_sq = state_.exp_avg_sq[i];
    if (group.weight_decay != 0) parameters_[i].mul_(decay_factor);
    exp_avg.lerp_(grad, 1 - options_.beta1);
    exp_avg_sq.mul_(options_.beta2).addcmul_(grad, grad, 1 - options_.beta2);
    const auto denominator = exp_avg_sq.sqrt().mul_(denominator_scale).add_(options_.eps);
    parameters_[i].add_(exp_avg.div(denominator).mul_(step_size));
  }
}

std::vector<at::Tensor> AdamW::gradients() const {
  std::vector<at::Tensor> grads;
  grads.reserve(parameters_.size());
  for (const auto& parameter : parameters_) {
    if (parameter.grad().defined()) grads.push_back(parameter.grad());
  }
  return grads;
}

at::Tensor AdamW::gradient_norm() const {
  const c10::AutoGradMode no_grad(false);
  const auto grads = gradients();
  if (grads.empty()) return at::zeros({}, state_.step.options());
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(grads, 2)), 2);
}

void AdamW::clip_gradients(const at::Tensor& norm, double max_norm) {
  if (!(max_norm > 0))
    fail("AdamW::clip_grad_norm", "max_norm is out of range", std::to_string(max_norm),
         "a number above 0");
  const c10::AutoGradMode no_grad(false);
  const auto grads = gradients();
  if (grads.empty()) return;
  // Divide on the device: reading the norm here would synchronize and prevent graph capture.
  const auto factor = norm.add(1e-6).reciprocal_().mul_(max_norm).clamp_max_(1.0);
  at::_foreach_mul_(grads, factor);
}

at::Tensor AdamW::clip_grad_norm(double max_norm) {
  auto norm = gradient_norm();
  clip_gradients(norm, max_norm);
  return norm;
}

void AdamW::zero_grad() {
  const c10::AutoGradMode no_grad(false);
  for (auto& parameter : parameters_) {
    auto& grad = parameter.mutable_grad();
    if (grad.defined()) {
      grad.zero_();
    } else {
      grad = at::zeros_like(parameter);
    }
  }
}

void AdamW::set_lr(double lr) {
  check_range("lr", lr, std::isfinite(lr) && lr >= 0, "a number of at least 0");
  options_.lr = lr;
  state_.lr.fill_(lr);
}

void AdamW::load_state(const State& state) {
  const auto check = [](const std::string& name, const at::Tensor& mine, const at::Tensor& given) {
    if (!given.defined()) fail("AdamW::load_state", name + " is undefined", "", "a tensor");
    if (mine.sizes() != given.sizes()) {
      fail("AdamW::load_state", name + " has the wrong shape", shape_of(given), shape_of(mine));
    }
  };
  const auto count = parameters_.size();
  if (state.exp_avg.size() != count || state.exp_avg_sq.size() != count) {
    fail("AdamW::load_state", "the state has the wrong number of parameters",
         std::to_string(state.exp_avg.size()) + " exp_avg and " +
             std::to_string(state.exp_avg_sq.size()) + " exp_avg_sq tensors",
         std::to_string(count) + " of each");
  }
  check("step", state_.step, state.step);
  check("lr", state_.lr, state.lr);
  for (std::size_t i = 0; i < count; ++i) {
    check("exp_avg " + std::to_string(i), state_.exp_avg[i], state.exp_avg[i]);
    check("exp_avg_sq " + std::to_string(i), state_.exp_avg_sq[i], state.exp_avg_sq[i]);
  }
  const c10::AutoGradMode no_grad(false);
  state_.step.copy_(state.step);
  state_.lr.copy_(state.lr);
  for (std::size_t i = 0; i < count; ++i) {
    state_.exp_avg[i].copy_(state.exp_avg[i]);
    state_.exp_avg_sq[i].copy_(state.exp_avg_sq[i]);
  }
}

}  // namespace anyaccel::llm
