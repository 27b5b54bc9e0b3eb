#include "llm/fine_tune/trained.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace anyaccel::llm {

namespace {

/// Adds the gradient of a parameter to that of its master, and frees the parameter's gradient.
class MoveGradient final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit MoveGradient(at::Tensor master) : master_(std::move(master)) {}
  void operator()(const at::Tensor& parameter) override {
    const c10::AutoGradMode no_gradient(false);
    at::Tensor& gradient = master_.mutable_grad();
    if (gradient.defined())
      gradient.add_(parameter.grad());
    else
      gradient = parameter.grad().to(master_.scalar_type());
    parameter.mutable_grad().reset();
  }

 private:
  at::Tensor master_;
};

}  // namespace

TrainedParameters::TrainedParameters(const CausalLM& model) {
  for (const auto& item : model->named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!parameter.requires_grad()) continue;
    names_.push_back(item.key());
    parameters_.push_back(parameter);
    copied_ = copied_ || parameter.scalar_type() != c10::kFloat;
  }
}

void TrainedParameters::make_masters() {
  const c10::AutoGradMode no_gradient(false);
  for (const at::Tensor& parameter : parameters_) {
    const bool own = parameter.scalar_type() == c10::kFloat;
    masters_.push_back(own ? parameter : parameter.detach().to(c10::kFloat).requires_grad_(true));
  }
}

TrainedParameters::~TrainedParameters() {
  for (const at::Tensor& parameter : hooked_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

std::vector<bool> TrainedParameters::decays() const {
  std::vector<bool> out;
  for (const at::Tensor& parameter : parameters_) out.push_back(parameter.dim() > 1);
  return out;
}

void TrainedParameters::collect_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].is_same(masters_[i])) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<MoveGradient>(masters_[i]));
    hooked_.push_back(parameters_[i]);
  }
}

void TrainedParameters::publish() {
  const c10::AutoGradMode no_gradient(false);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].is_same(masters_[i])) parameters_[i].copy_(masters_[i]);
  }
}

void TrainedParameters::drop_gradients() {
  for (const auto* tensors : {&parameters_, &masters_}) {
    for (const at::Tensor& tensor : *tensors) tensor.mutable_grad().reset();
  }
}

}  // namespace anyaccel::llm
