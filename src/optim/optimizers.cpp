#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <map>

#include "anyaccel/error.h"
#include "anyaccel/ops/call.h"
#include "anyaccel/optim.h"

namespace anyaccel::optim {

using torch::optim::OptimizerParamGroup;

template <typename Options>
OpOptimizer<Options>::OpOptimizer(const ParamGroups& groups, Options defaults)
    : Optimizer(ParamGroups{}, std::make_unique<Options>(std::move(defaults))) {
  for (const auto& group : groups) add_param_group(group);
}

template <typename Options>
void OpOptimizer<Options>::add_param_group(const OptimizerParamGroup& group) {
  Optimizer::add_param_group(group);
  // LibTorch merges the options of a group with the defaults only for its own optimizers.
  if (group.has_options()) param_groups_.back().set_options(group.options().clone());
}

template <typename Options>
at::Tensor OpOptimizer<Options>::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    using Key = std::tuple<std::string, c10::ScalarType, c10::ScalarType, std::int64_t>;
    std::map<Key, std::pair<Batch, std::vector<ParamState*>>> batches;
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor& grad = parameter.grad();
      if (!grad.defined()) continue;
      if (grad.is_sparse())
        throw Error(ErrorCode::unsupported, "step",
                    {.what = "sparse gradients are not supported", .want = "dense gradients"});
      auto& slot = state_[parameter.unsafeGetTensorImpl()];
      if (!slot) {
        auto fresh = std::make_unique<ParamState>();
        create_state(parameter, *fresh);
        slot = std::move(fresh);
      }
      auto& state = static_cast<ParamState&>(*slot);
      auto& [batch, states] = batches[{parameter.device().str(), parameter.scalar_type(),
                                       grad.scalar_type(), state.step()}];
      batch.params.push_back(parameter);
      batch.grads.push_back(grad);
      if (state.exp_avg().defined()) batch.exp_avg.push_back(state.exp_avg());
      if (state.exp_avg_sq().defined()) batch.exp_avg_sq.push_back(state.exp_avg_sq());
      states.push_back(&state);
    }
    for (auto& [key, entry] : batches) {
      const std::int64_t next = std::get<3>(key) + 1;
      update(static_cast<const Options&>(group.options()), next, entry.first);
      for (ParamState* state : entry.second) state->step(next);
    }
  }
  return loss;
}

template <typename Options>
void OpOptimizer<Options>::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<ParamState, Options>(archive, *this);
}

template <typename Options>
void OpOptimizer<Options>::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<ParamState, Options>(archive, *this);
}

template class OpOptimizer<AdamOptions>;
template class OpOptimizer<AdagradOptions>;
template class OpOptimizer<LionOptions>;
template class OpOptimizer<LambOptions>;

namespace {

at::Tensor zeros_of(const at::Tensor& parameter, c10::ScalarType dtype) {
  return at::zeros_like(parameter, parameter.options().dtype(dtype).requires_grad(false));
}

/// DeepSpeed's value for `chunk_size`. Only the CUDA kernels use it.
constexpr std::int64_t chunk_size = 2048 * 32;

at::Tensor noop_flag(const at::Tensor& parameter) {
  return at::zeros({1}, parameter.options().dtype(at::kInt).requires_grad(false));
}

}  // namespace

CPUAdam::CPUAdam(const ParamGroups& groups, AdamOptions defaults)
    : OpOptimizer(groups, defaults),
      op_(std::make_unique<ops::CPUAdam>(
          ops::CPUAdamOptions{.lr = defaults.lr(),
                              .beta1 = std::get<0>(defaults.betas()),
                              .beta2 = std::get<1>(defaults.betas()),
                              .eps = defaults.eps(),
                              .weight_decay = defaults.weight_decay(),
                              .bias_correction = defaults.bias_correction(),
                              .adamw_mode = defaults.adamw_mode()})) {}

void CPUAdam::update(const AdamOptions& options, std::int64_t step, Batch& batch) {
  auto& o = op_->options();
  if (options.adamw_mode() != o.adamw_mode)
    throw Error(ErrorCode::invalid_argument, "CPUAdam::step",
                {.what = "the adamw_mode of a group differs from that of the optimizer",
                 .hint = "create one optimizer per mode"});
  o.lr = options.lr();
  std::tie(o.beta1, o.beta2) = options.betas();
  o.eps = options.eps();
  o.weight_decay = options.weight_decay();
  o.bias_correction = options.bias_correction();
  op_->set_steps(step - 1);
  op_->step(batch.params, batch.grads, batch.exp_avg, batch.exp_avg_sq);
}

void CPUAdam::create_state(const at::Tensor& parameter, ParamState& state) const {
  state.exp_avg(zeros_of(parameter, at::kFloat)).exp_avg_sq(zeros_of(parameter, at::kFloat));
}

CPUAdagrad::CPUAdagrad(const ParamGroups& groups, AdagradOptions defaults)
    : OpOptimizer(groups, defaults),
      op_(std::make_unique<ops::CPUAdagrad>(ops::CPUAdagradOptions{
          .lr = defaults.lr(), .eps = defaults.eps(), .weight_decay = defaults.weight_decay()})) {}

void CPUAdagrad::update(const AdagradOptions& options, std::int64_t step, Batch& batch) {
  op_->options() = {
      .lr = options.lr(), .eps = options.eps(), .weight_decay = options.weight_decay()};
  op_->set_steps(step - 1);
  op_->step(batch.params, batch.grads, batch.exp_avg_sq);
}

void CPUAdagrad::create_state(const at::Tensor& parameter, ParamState& state) const {
  state.exp_avg_sq(zeros_of(parameter, at::kFloat));
}

CPULion::CPULion(const ParamGroups& groups, LionOptions defaults)
    : OpOptimizer(groups, defaults),
      op_(std::make_unique<ops::CPULion>(
          ops::CPULionOptions{.lr = defaults.lr(),
                              .beta1 = std::get<0>(defaults.betas()),
                              .beta2 = std::get<1>(defaults.betas()),
                              .weight_decay = defaults.weight_decay()})) {}

void CPULion::update(const LionOptions& options, std::int64_t step, Batch& batch) {
  op_->options() = {.lr = options.lr(),
                    .beta1 = std::get<0>(options.betas()),
                    .beta2 = std::get<1>(options.betas()),
                    .weight_decay = options.weight_decay()};
  op_->set_steps(step - 1);
  op_->step(batch.params, batch.grads, batch.exp_avg);
}

void CPULion::create_state(const at::Tensor& parameter, ParamState& state) const {
  state.exp_avg(zeros_of(parameter, at::kFloat));
}

using MultiTensorAdam = void(std::int64_t, const at::Tensor&, at::TensorList, at::TensorList,
                             at::TensorList, at::TensorList, double, double, double, double,
                             std::int64_t, std::int64_t, std::int64_t, double);

static const c10::TypedOperatorHandle<MultiTensorAdam>& adam_op() {
  static const auto op = ops::load_op<MultiTensorAdam>("FusedAdamBuilder", "multi_tensor_adam");
  return op;
}

FusedAdam::FusedAdam(const ParamGroups& groups, AdamOptions defaults)
    : OpOptimizer(groups, std::move(defaults)) {
  adam_op();
}

void FusedAdam::update(const AdamOptions& options, std::int64_t step, Batch& batch) {
  const auto [beta1, beta2] = options.betas();
  ops::calling("FusedAdam::step", [&, b1 = beta1, b2 = beta2] {
    adam_op().call(chunk_size, noop_flag(batch.params[0]), batch.grads, batch.params, batch.exp_avg,
                   batch.exp_avg_sq, options.lr(), b1, b2, options.eps(), step,
                   options.adamw_mode() ? 1 : 0, options.bias_correction() ? 1 : 0,
                   options.weight_decay());
  });
}

void FusedAdam::create_state(const at::Tensor& parameter, ParamState& state) const {
  const auto dtype = parameter.scalar_type();
  state.exp_avg(zeros_of(parameter, dtype)).exp_avg_sq(zeros_of(parameter, dtype));
}

using MultiTensorLion = void(std::int64_t, const at::Tensor&, at::TensorList, at::TensorList,
                             at::TensorList, double, double, double, std::int64_t, double);

static const c10::TypedOperatorHandle<MultiTensorLion>& lion_op() {
  static const auto op = ops::load_op<MultiTensorLion>("FusedLionBuilder", "multi_tensor_lion");
  return op;
}

FusedLion::FusedLion(const ParamGroups& groups, LionOptions defaults)
    : OpOptimizer(groups, std::move(defaults)) {
  lion_op();
}

void FusedLion::update(const LionOptions& options, std::int64_t step, Batch& batch) {
  const auto [beta1, beta2] = options.betas();
  ops::calling("FusedLion::step", [&, b1 = beta1, b2 = beta2] {
    lion_op().call(chunk_size, noop_flag(batch.params[0]), batch.grads, batch.params, batch.exp_avg,
                   options.lr(), b1, b2, step, options.weight_decay());
  });
}

void FusedLion::create_state(const at::Tensor& parameter, ParamState& state) const {
  state.exp_avg(zeros_of(parameter, parameter.scalar_type()));
}

using Lamb = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const at::Tensor&, double, double, double, double, double, double, double,
                        std::int64_t, std::int64_t, std::int64_t, double);

static const c10::TypedOperatorHandle<Lamb>& lamb_op() {
  static const auto op = ops::load_op<Lamb>("FusedLambBuilder", "lamb");
  return op;
}

FusedLamb::FusedLamb(const ParamGroups& groups, LambOptions defaults)
    : OpOptimizer(groups, std::move(defaults)) {
  lamb_op();
}

void FusedLamb::update(const LambOptions& options, std::int64_t step, Batch& batch) {
  const auto [beta1, beta2] = options.betas();
  for (std::size_t i = 0; i < batch.params.size(); ++i)
    ops::calling("FusedLamb::step", [&, b1 = beta1, b2 = beta2] {
      lamb_op().call(batch.params[i],
                     at::empty({0}, batch.params[i].options().requires_grad(false)),
                     batch.exp_avg[i], batch.exp_avg_sq[i], batch.grads[i], options.lr(), b1, b2,
                     options.max_coeff(), options.min_coeff(), options.eps(), 1.0, step, 1,
                     options.bias_correction() ? 1 : 0, options.weight_decay());
    });
}

void FusedLamb::create_state(const at::Tensor& parameter, ParamState& state) const {
  const auto dtype = parameter.scalar_type();
  state.exp_avg(zeros_of(parameter, dtype)).exp_avg_sq(zeros_of(parameter, dtype));
}

}  // namespace anyaccel::optim
