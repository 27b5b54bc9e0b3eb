// llm::AdamW as a `torch::optim::Optimizer`. It has its own header because LibTorch's optimizer
// headers are slow to compile. Link `anyaccel::llm`.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <utility>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/adamw.h"
#include "anyaccel/optim.h"

namespace anyaccel::llm {

/// AdamW on any device as a torch::optim::Optimizer, with parameter groups, torch::save(),
/// torch::load() and LibTorch's learning-rate schedulers.
///
/// Step counts and learning rates are tensors on the device, so step() can be captured in an
/// anyaccel::Graph. Before each replay, call update_lr() if a scheduler changed the learning rate,
/// and zero gradients with zero_grad(false), which keeps their addresses. Of a group's options,
/// only the learning rate may change after the group is added.
///
/// Constructors and add_param_group() throw `invalid_argument` for out-of-range options, for
/// adamw_mode(false) and bias_correction(false), and for groups whose parameters are not
/// floating-point leaf tensors on one device. Not thread-safe.
class ANYACCEL_API AdamWOptimizer : public torch::optim::Optimizer {
 public:
  using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

  /// Create an optimizer for parameter groups. `defaults`: options for groups that have none.
  explicit AdamWOptimizer(const ParamGroups& groups, optim::AdamOptions defaults = {});
  /// Create an optimizer for one group of parameters.
  explicit AdamWOptimizer(std::vector<at::Tensor> params, optim::AdamOptions defaults = {})
      : AdamWOptimizer(ParamGroups{torch::optim::OptimizerParamGroup(std::move(params))},
                       std::move(defaults)) {}

  /// Perform one step and return the loss of `closure`, if given. The closure runs with gradients
  /// enabled. Parameters without a gradient are skipped.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Copy learning rates to the device if they have changed since the previous call. step() also
  /// does this.
  void update_lr();
  /// Write options and state. Used by torch::save().
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Read options and state. Used by torch::load().
  void load(torch::serialize::InputArchive& archive) override;
  /// Add a parameter group. If the group has options, they replace all defaults.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

 private:
  struct Group {
    AdamW adamw;
    double device_lr;  ///< current value of the learning-rate tensor on the device
  };
  double lr(std::size_t group) const;

  std::vector<Group> groups_;  ///< one per parameter group
};

}  // namespace anyaccel::llm
