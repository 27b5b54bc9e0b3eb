// AdamW whose state lives on the device, so that a captured graph advances it at each replay.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// Hyper-parameters of AdamW. All but `lr` are fixed at construction, and thus in captured graphs.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool fused = true;  ///< use the device's fused kernel where torch has one
};

/// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay
/// Regularization", ICLR 2019), the same update as torch.optim.AdamW.
///
/// Step count and learning rate are tensors on the parameters' device and no call here waits for
/// the device, so step() and clip_grad_norm() may be captured; set_lr() between replays then drives
/// the schedule. One step count serves all parameters; a parameter without gradient is left alone
/// in that step. The moments have the dtype of their parameter: keep parameters in fp32 and compute
/// under autocast. Uses the device's fused kernel where torch has one, otherwise ordinary ops. Not
/// thread-safe.
class ANYACCEL_API AdamW {
 public:
  /// What a checkpoint holds, in the order of the parameters. The tensors are the live ones, not
  /// copies.
  struct State {
    std::vector<at::Tensor> exp_avg;     ///< first moments, shapes and dtypes of the parameters
    std::vector<at::Tensor> exp_avg_sq;  ///< second moments, likewise
    at::Tensor step;                     ///< 0-d fp32, number of steps taken
    at::Tensor lr;                       ///< 0-d fp32, the current learning rate
  };

  /// `decay[i]` says whether parameter i is decayed; empty means all are. All parameters are dense
  /// floating point leaves on one device. Anything else, or an option out of its range, is
  /// `invalid_argument`.
  explicit AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options = {},
                 const std::vector<bool>& decay = {});

  /// Updates all parameters from their gradients.
  void step();

  /// Gradients of the parameters that have one, in their order.
  std::vector<at::Tensor> gradients() const;

  /// Scales all gradients so that their common 2-norm is at most `max_norm` (> 0), as
  /// torch.nn.utils.clip_grad_norm_. Returns the norm before that: a 0-d tensor on the device.
  at::Tensor clip_grad_norm(double max_norm);

  /// The two halves of clip_grad_norm(), for ranks that must all clip by one of them's norm: sums
  /// of threads differ in the last bits.
  at::Tensor gradient_norm() const;
  void clip_gradients(const at::Tensor& norm, double max_norm);

  /// Sets all gradients to zero in place: their addresses stay, as graphs need it. A gradient that
  /// does not exist yet is made.
  void zero_grad();

  /// Writes the learning rate tensor. Call it between replays and not inside a capture, where the
  /// number freezes.
  void set_lr(double lr);

  const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  const State& state() const noexcept { return state_; }

  /// Copies a state in. Another number of tensors or another shape is `invalid_argument`, names the
  /// tensor and leaves the present state as it is.
  void load_state(const State& state);

  /// True when the device's fused kernel is used.
  bool fused() const noexcept { return fused_; }

 private:
  // Parameters that one fused call can take: same dtype, same decay.
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
