// AdamW with its state on the device, so that each replay of a captured graph performs a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// Hyper-parameters of AdamW. All except `lr` are fixed at construction, and therefore in captured
/// graphs.
struct AdamWOptions {
  /// Learning rate, at least 0. Change it with set_lr().
  double lr = 1e-3;
  /// Decay of the first moment, in [0, 1).
  double beta1 = 0.9;
  /// Decay of the second moment, in [0, 1).
  double beta2 = 0.999;
  /// Epsilon, added to the denominator. At least 0.
  double eps = 1e-8;
  /// Decoupled weight decay, at least 0.
  double weight_decay = 1e-2;
  /// Use the device's fused kernel if torch has one.
  bool fused = true;
};

/// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay
/// Regularization", ICLR 2019, arXiv:1711.05101). The update rule is that of torch.optim.AdamW.
///
/// The step count and the learning rate are tensors on the parameters' device, and no function
/// waits for the device. Therefore step() and clip_grad_norm() can be captured in a graph, and a
/// learning-rate schedule can call set_lr() between replays.
///
/// All parameters share one step count. A step does not change parameters without a gradient. The
/// moments have the dtype of their parameter, so keep parameters in float32 and compute under
/// autocast. Uses the device's fused kernel if torch has one, otherwise ordinary ops. Not
/// thread-safe.
class ANYACCEL_API AdamW {
 public:
  /// State for checkpoints, in parameter order. The tensors share memory with the optimizer's
  /// state.
  struct State {
    std::vector<at::Tensor> exp_avg;     ///< first moments, with the parameters' shapes and dtypes
    std::vector<at::Tensor> exp_avg_sq;  ///< second moments, with the parameters' shapes and dtypes
    at::Tensor step;                     ///< 0-d float32, number of steps taken
    at::Tensor lr;                       ///< 0-d float32, current learning rate
  };

  /// Create the optimizer with zero moments. `parameters`: dense floating-point leaf tensors on one
  /// device. `decay[i]`: whether weight decay applies to parameter i; empty applies it to all.
  /// Throws `invalid_argument` for any other kind of tensor, for out-of-range options, and if the
  /// length of `decay` differs from that of `parameters`.
  explicit AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options = {},
                 const std::vector<bool>& decay = {});

  /// Update all parameters from their gradients.
  void step();

  /// Gradients of all parameters that have one, in parameter order.
  std::vector<at::Tensor> gradients() const;

  /// Scale all gradients so that their joint 2-norm is at most `max_norm` (> 0), like
  /// torch.nn.utils.clip_grad_norm_. Returns the norm before scaling as a 0-d tensor on the device.
  at::Tensor clip_grad_norm(double max_norm);

  /// Return the joint 2-norm of all gradients, without scaling them. With clip_gradients(), this
  /// lets all ranks clip with the norm that one rank computed: norms computed on different ranks
  /// can differ in the last bits, because sums depend on the number of threads.
  at::Tensor gradient_norm() const;
  /// Scale all gradients by `max_norm / norm` if `norm`, a 0-d tensor on the device, is greater
  /// than `max_norm`.
  void clip_gradients(const at::Tensor& norm, double max_norm);

  /// Set all gradients to zero in place, so that they keep the addresses that captured graphs use.
  /// Creates gradients that do not exist yet.
  void zero_grad();

  /// Set the learning rate. Call it between replays, not during a capture, which would record the
  /// value as a constant. Throws `invalid_argument` for a negative or infinite value.
  void set_lr(double lr);

  const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  const State& state() const noexcept { return state_; }

  /// Copy a state into this optimizer. Throws `invalid_argument`, naming the tensor, if the number
  /// of tensors or a shape does not match; the current state is then unchanged.
  void load_state(const State& state);

  /// Return whether the device's fused kernel is used.
  bool fused() const noexcept { return fused_; }

 private:
  // Parameters of one fused call: same dtype and same weight decay.
  struct Group {
    double weight_decay;
    std::vector<std::size_t> members;
  };
  void step_fused(const Group& group);
  void step_plain(const Group& group, const at::Tensor& step_size,
                  const at::Tensor& denominator_scale);

  std::vector<at::Tensor> parameters_;
  AdamWOptions options_;
  State state_;
  std::vector<Group> groups_;
  bool fused_;
};

}  // namespace anyaccel::llm
