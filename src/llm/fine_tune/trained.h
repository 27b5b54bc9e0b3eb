// The trained parameters of a model, with float32 master weights for parameters of other dtypes.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "anyaccel/llm/causal_lm.h"

namespace anyaccel::llm {

/// Parameters that require gradients. After make_masters(), the optimizer updates masters(): the
/// parameters themselves if they are in float32, otherwise float32 copies (Micikevicius et al.,
/// "Mixed Precision Training", ICLR 2018, arXiv:1710.03740). Not thread-safe.
class TrainedParameters {
 public:
  explicit TrainedParameters(const CausalLM& model);
  ~TrainedParameters();
  TrainedParameters(const TrainedParameters&) = delete;
  TrainedParameters& operator=(const TrainedParameters&) = delete;

  const std::vector<std::string>& names() const noexcept { return names_; }
  /// The model's tensors, in the model's order.
  const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// Creates the masters. ZeRO does without them.
  void make_masters();
  const std::vector<at::Tensor>& masters() const noexcept { return masters_; }
  /// For each parameter, whether weight decay applies: to matrices, not to norms and biases.
  std::vector<bool> decays() const;
  /// Returns whether some parameters are not in float32, so that masters are copies.
  bool copied() const noexcept { return copied_; }

  /// Installs hooks on parameters that have a separate master. As soon as the backward pass has
  /// computed a gradient, the hook adds it to the master's gradient and frees it.
  void collect_gradients();
  /// Copies the masters' values to the parameters.
  void publish();
  /// Frees all gradients.
  void drop_gradients();

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, masters_;
  std::vector<at::Tensor> hooked_;  ///< parameters whose gradients move to their masters
  bool copied_ = false;
};

}  // namespace anyaccel::llm
