// The part of the optimizer's state that belongs to this rank: float32 weights and AdamW's moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "anyaccel/llm/adamw.h"
#include "llm/zero/flat.h"
#include "llm/zero/partition.h"

namespace anyaccel::llm {

enum class StateKind { exp_avg, exp_avg_sq, weight };

/// Parameters of a run, and how they are divided.
struct OwnedParameters {
  const Partition& partition;
  std::vector<at::Tensor> parameters;  ///< the model's tensors
  std::vector<bool> decays;            ///< for each parameter, whether weight decay applies
  AdamWOptions adamw;

  /// The elements of a slice in the model.
  at::Tensor values(const OwnedSlice& slice) const {
    return flat(parameters[slice.parameter]).narrow(0, slice.begin, slice.count);
  }
  c10::ScalarType dtype(std::size_t bucket) const {
    return parameters[partition.buckets()[bucket].parameters[0]].scalar_type();
  }
  double weight_decay(const OwnedSlice& slice) const {
    return decays[slice.parameter] ? adamw.weight_decay : 0.0;
  }
};

/// Input of an update.
struct UpdateInput {
  std::int64_t step = 0;  ///< 1-based
  double lr = 0;
  float scale = 1;  ///< factor for all gradients
  /// Returns this rank's part of a bucket's gradients. The update may change it.
  std::function<at::Tensor(std::size_t bucket)> gradient;
  /// Whether any rank has a gradient for each parameter. Other parameters keep their values.
  std::vector<bool> present;
};

/// Weights and moments of this rank's parts. If the model's own elements are float32 and in the
/// memory where the update runs, they are the weights. Otherwise, the weights are float32 copies.
/// Not thread-safe.
class OptimizerState {
 public:
  virtual ~OptimizerState() = default;
  /// Announces that update() follows after a backward pass.
  virtual void prepare() {}
  /// Updates the state and this rank's elements of the parameters.
  virtual void update(const UpdateInput& input) = 0;
  /// Returns this rank's part of a bucket as a 1-d float32 host tensor. The padding is undefined.
  virtual at::Tensor read(StateKind kind, std::size_t bucket) = 0;
  /// Replaces this rank's part of a bucket. Also copies weights to the parameters.
  virtual void write(StateKind kind, std::size_t bucket, const at::Tensor& part) = 0;
};

/// Returns a state on the parameters' device, which the device updates.
std::unique_ptr<OptimizerState> make_device_state(OwnedParameters owned);
/// Returns a state in host memory, which CPUAdam updates. Throws the same errors as CPUAdam.
std::unique_ptr<OptimizerState> make_host_state(OwnedParameters owned);
/// Returns a state in a file without a name, on the file system of `folder`, which is created if
/// necessary. CPUAdam updates it piece by piece, while other pieces are read and written. Throws
/// `io`, naming the folder, if it is not writable or the file system is full, and the same errors
/// as CPUAdam and AsyncIOHandle.
std::unique_ptr<OptimizerState> make_disk_state(OwnedParameters owned,
                                                const std::filesystem::path& folder);

}  // namespace anyaccel::llm
