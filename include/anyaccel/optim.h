// The optimizer ops, wrapped as `torch::optim::Optimizer` classes. They support parameter groups,
// torch::save(), torch::load() and LibTorch's learning-rate schedulers. Link `anyaccel::ops`. This
// header is separate because LibTorch's optimizer headers are slow to compile.
//
//     anyaccel::optim::CPUAdam optimizer(model->parameters(),
//                                        anyaccel::optim::AdamOptions(1e-3).weight_decay(0.01));
//     torch::optim::StepLR scheduler(optimizer, /*step_size=*/10, /*gamma=*/0.5);
//
// Errors: constructors and step() throw `build_failed` or `unavailable` if the op cannot be loaded,
// `invalid_argument` if the op rejects options or tensors, and `unsupported` for sparse gradients.
// If step() throws, it may already have updated some parameters; the step counts of the parameters
// in the failing call do not change.
//
// The classes are not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/ops/cpu_adagrad.h"
#include "anyaccel/ops/cpu_adam.h"
#include "anyaccel/ops/cpu_lion.h"

namespace anyaccel::optim {

/// Options for Adam and AdamW (Loshchilov and Hutter, arXiv:1711.05101), with DeepSpeedCPUAdam's
/// defaults.
struct ANYACCEL_API AdamOptions : torch::optim::OptimizerCloneableOptions<AdamOptions> {
  AdamOptions(double lr = 1e-3) : lr_(lr) {}
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(betas_t, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, bias_correction) = true;
  /// True: decoupled weight decay (AdamW). False: L2 decay, which is added to the gradient. All
  /// parameter groups of a CPUAdam optimizer must have the same value.
  TORCH_ARG(bool, adamw_mode) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(const double value) override { lr(value); }
};

/// Options for Adagrad (Duchi et al., JMLR 12, 2011) with L2 decay and DeepSpeedCPUAdagrad's
/// defaults.
struct ANYACCEL_API AdagradOptions : torch::optim::OptimizerCloneableOptions<AdagradOptions> {
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}
  TORCH_ARG(double, lr) = 1e-2;
  TORCH_ARG(double, eps) = 1e-10;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(const double value) override { lr(value); }
};

/// Options for Lion (Chen et al., arXiv:2302.06675) with decoupled weight decay.
struct ANYACCEL_API LionOptions : torch::optim::OptimizerCloneableOptions<LionOptions> {
  LionOptions(double lr = 1e-3) : lr_(lr) {}
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(betas_t, betas) = {0.9, 0.999};
  TORCH_ARG(double, weight_decay) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(const double value) override { lr(value); }
};

/// Options for LAMB (You et al., arXiv:1904.00962), with DeepSpeed's defaults. The trust ratio is
/// clamped to [min_coeff, max_coeff].
struct ANYACCEL_API LambOptions : torch::optim::OptimizerCloneableOptions<LambOptions> {
  LambOptions(double lr = 1e-3) : lr_(lr) {}
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(betas_t, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, max_coeff) = 10;
  TORCH_ARG(double, min_coeff) = 0.01;
  TORCH_ARG(bool, bias_correction) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(const double value) override { lr(value); }
};

/// State of one parameter. Adagrad leaves `exp_avg` undefined, and Lion leaves `exp_avg_sq`
/// undefined.
struct ANYACCEL_API ParamState : torch::optim::OptimizerCloneableParamState<ParamState> {
  TORCH_ARG(std::int64_t, step) = 0;
  TORCH_ARG(at::Tensor, exp_avg);
  TORCH_ARG(at::Tensor, exp_avg_sq);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// Base class of the optimizers. Within each parameter group, one update() call updates all
/// parameters with the same device, dtypes and step count.
template <typename Options>
class ANYACCEL_API OpOptimizer : public torch::optim::Optimizer {
 public:
  /// Perform one step and return the loss of `closure`, if given. The closure runs with gradients
  /// enabled. Parameters without a gradient are skipped.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Write options and state. Used by torch::save().
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Read options and state. Used by torch::load().
  void load(torch::serialize::InputArchive& archive) override;
  /// Add a parameter group. If the group has options, they replace all defaults.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

 protected:
  /// Tensors for one update() call, with one entry per parameter. `exp_avg` or `exp_avg_sq` is
  /// empty if the optimizer does not use it.
  struct Batch {
    std::vector<at::Tensor> params, grads, exp_avg, exp_avg_sq;
  };
  OpOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, Options defaults);

  /// Update the parameters of `batch`. `step` counts from 1.
  virtual void update(const Options& options, std::int64_t step, Batch& batch) = 0;
  /// Create the zero-initialized state of a parameter.
  virtual void create_state(const at::Tensor& parameter, ParamState& state) const = 0;
};

/// Parameter groups. Each can have its own options.
using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

/// Adam for parameters in host memory. Uses the op `cpu_adam`. The moments are float32.
class ANYACCEL_API CPUAdam : public OpOptimizer<AdamOptions> {
 public:
  /// Create an optimizer for parameter groups. `defaults`: options for groups without options.
  explicit CPUAdam(const ParamGroups& groups, AdamOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit CPUAdam(std::vector<at::Tensor> params, AdamOptions defaults = {})
      : CPUAdam(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                std::move(defaults)) {}

 private:
  void update(const AdamOptions& options, std::int64_t step, Batch& batch) override;
  void create_state(const at::Tensor& parameter, ParamState& state) const override;
  std::unique_ptr<ops::CPUAdam> op_;
};

/// Adagrad for parameters in host memory. Uses the op `cpu_adagrad`. The state is float32.
class ANYACCEL_API CPUAdagrad : public OpOptimizer<AdagradOptions> {
 public:
  /// Create an optimizer for parameter groups. `defaults`: options for groups without options.
  explicit CPUAdagrad(const ParamGroups& groups, AdagradOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit CPUAdagrad(std::vector<at::Tensor> params, AdagradOptions defaults = {})
      : CPUAdagrad(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                   std::move(defaults)) {}

 private:
  void update(const AdagradOptions& options, std::int64_t step, Batch& batch) override;
  void create_state(const at::Tensor& parameter, ParamState& state) const override;
  std::unique_ptr<ops::CPUAdagrad> op_;
};

/// Lion for parameters in host memory. Uses the op `cpu_lion`. The state is float32.
class ANYACCEL_API CPULion : public OpOptimizer<LionOptions> {
 public:
  /// Create an optimizer for parameter groups. `defaults`: options for groups without options.
  explicit CPULion(const ParamGroups& groups, LionOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit CPULion(std::vector<at::Tensor> params, LionOptions defaults = {})
      : CPULion(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                std::move(defaults)) {}

 private:
  void update(const LionOptions& options, std::int64_t step, Batch& batch) override;
  void create_state(const at::Tensor& parameter, ParamState& state) const override;
  std::unique_ptr<ops::CPULion> op_;
};

/// Adam for parameters on any device that supports the op `fused_adam`. The moments have the dtype
/// of their parameter.
class ANYACCEL_API FusedAdam : public OpOptimizer<AdamOptions> {
 public:
  /// Create an optimizer for parameter groups. `defaults`: options for groups without options.
  explicit FusedAdam(const ParamGroups& groups, AdamOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit FusedAdam(std::vector<at::Tensor> params, AdamOptions defaults = {})
      : FusedAdam(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                  std::move(defaults)) {}

 private:
  void update(const AdamOptions& options, std::int64_t step, Batch& batch) override;
  void create_state(const at::Tensor& parameter, ParamState& state) const override;
};

/// Lion for parameters on any device that supports the op `fused_lion`. The state has the dtype of
/// its parameter.
class ANYACCEL_API FusedLion : public OpOptimizer<LionOptions> {
 public:
  /// Create an optimizer for parameter groups. `defaults`: options for groups without options.
  explicit FusedLion(const ParamGroups& groups, LionOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit FusedLion(std::vector<at::Tensor> params, LionOptions defaults = {})
      : FusedLion(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                  std::move(defaults)) {}

 private:
  void update(const LionOptions& options, std::int64_t step, Batch& batch) override;
  void create_state(const at::Tensor& parameter, ParamState& state) const override;
};

/// LAMB for parameters on any device that supports the op `fused_lamb`. The moments have the dtype
/// of their parameter.
class ANYACCEL_API FusedLamb : public OpOptimizer<LambOptions> {
 public:
  /// Create an optimizer for parameter groups. `defaults`: options for groups without options.
  explicit FusedLamb(const ParamGroups& groups, LambOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit FusedLamb(std::vector<at::Tensor> params, LambOptions defaults = {})
      : FusedLamb(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                  std::move(defaults)) {}

 private:
  void update(const LambOptions& options, std::int64_t step, Batch& batch) override;
  void create_state(const at::Tensor& parameter, ParamState& state) const override;
};

}  // namespace anyaccel::optim
