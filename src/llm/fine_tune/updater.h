// How the gradients of a fine-tuning run become new parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/llm/adamw.h"
#include "anyaccel/llm/fine_tuner.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/fine_tune/trained.h"
#include "llm/train/ranks.h"

namespace anyaccel::llm {

/// Gradients and optimizer of a run. All ranks call the same functions in the same order. Not
/// thread-safe.
class Updater {
 public:
  virtual ~Updater() = default;

  /// Runs a backward pass. `loss`: undefined if this rank has no rows in this pass. `last`: the
  /// last pass of the step. All ranks run the same number of passes per step.
  virtual void backward(const at::Tensor& loss, bool last) = 0;
  /// Clips the averaged gradients to the norm `clip`, updates the parameters and frees the
  /// gradients. Returns the norm before clipping, the same on all ranks.
  virtual double step(double lr, double clip) = 0;
  /// Tensors that are equal on all ranks unless a rank is faulty.
  virtual const std::vector<at::Tensor>& replicated() const = 0;

  /// Names and shapes of the optimizer's state in a checkpoint: for each parameter "exp_avg.NAME",
  /// "exp_avg_sq.NAME" and, with `weights`, "weight.NAME", all float32, and the number of steps,
  /// "step".
  virtual std::vector<TensorHead> state_heads(bool weights) const = 0;
  /// Passes these tensors to `write` in the order of state_heads(). Collective; only rank 0 calls
  /// `write`, which must not throw. Materializes one bucket at a time.
  virtual void write_state(bool weights, const std::function<void(const at::Tensor&)>& write) = 0;
  /// Restores a state. Every rank reads its own part. Throws `corrupt` for missing or unsuitable
  /// tensors.
  virtual void read_state(const SafetensorsFile& file, bool weights) = 0;
};

/// Returns the tensor with this name. Throws `corrupt` if it is missing, or if its dtype or shape
/// differs.
at::Tensor checked_tensor(const SafetensorsFile& file, const TensorHead& head);

/// Every rank holds all gradients and the whole state of the optimizer.
std::unique_ptr<Updater> make_replicated_updater(TrainedParameters& trained,
                                                 const FineTuneOptions& options, Ranks& ranks);
/// Each rank holds a part of the optimizer's state (ZeRO stages 1 and 2), on its device, in host
/// memory or on disk.
std::unique_ptr<Updater> make_zero_updater(TrainedParameters& trained,
                                           const FineTuneOptions& options, Ranks& ranks);
/// Selects one of them.
std::unique_ptr<Updater> make_updater(TrainedParameters& trained, const FineTuneOptions& options,
                                      Ranks& ranks);

/// Hyper-parameters of a run's AdamW.
AdamWOptions adamw_options(const FineTuneOptions& options);

}  // namespace anyaccel::llm
