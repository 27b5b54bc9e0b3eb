// One optimizer step (forward, backward, clipping, update), eager or as a captured graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/data_parallel.h"
#include "anyaccel/llm/adamw.h"
#include "anyaccel/llm/trainer.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "llm/train/ranks.h"

namespace anyaccel::llm {

/// Result of one step.
struct StepOutcome {
  double loss = 0;
  double gradient_norm = 0;
  bool skipped = false;
};

/// Runs steps on fixed input buffers, so that the same code can be captured. Not thread-safe.
class StepRunner {
 public:
  /// `share`: this rank's part of the batch. `group` and `parallel`: null for one rank.
  StepRunner(ModelState& model, AdamW& optimizer, GradScaler& scaler, const TrainOptions& options,
             const BatchShare& share, comm::ProcessGroup* group, comm::DataParallel* parallel);

  /// `tokens`: host int64 [this rank's batch, context + 1]. `masks`: host dropout masks, or empty.
  /// Returns the loss on this rank's part and the gradient norm of the whole batch.
  StepOutcome run(const at::Tensor& tokens, const DropoutMasks& masks, double lr);

 private:
  void forward_backward();
  void compute_gradients();
  void capture();
  void run_captured();
  void run_eagerly();
  bool accept_gradients();

  ModelState& model_;
  AdamW& optimizer_;
  GradScaler& scaler_;
  TrainOptions options_;
  double weight_;  ///< weight of this rank's loss
  comm::ProcessGroup* group_;
  comm::DataParallel* parallel_;
  at::Tensor tokens_;  ///< on the device, like the masks
  DropoutMasks masks_;
  at::Tensor loss_, norm_;
  bool scaled_;  ///< true for fp16: the host checks the gradients before the update
  /// On the device: the loss scale, and whether all gradients are finite.
  at::Tensor scale_, finite_;
  bool skipped_ = false;
  std::int64_t eager_steps_ = 0;
  std::optional<Graph> graph_;         ///< the whole step; if scaled_, only up to the gradients
  std::optional<Graph> update_graph_;  ///< if scaled_, the rest of the step
};

}  // namespace anyaccel::llm
