// Gradients of which each rank keeps a part, averaged during the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include "anyaccel/comm.h"
#include "llm/zero/partition.h"

namespace anyaccel::llm {

/// How gradients are stored.
struct GradientOptions {
  /// Reduce buckets after each backward pass and keep only this rank's parts (ZeRO stage 2).
  /// Otherwise, keep all gradients until the last backward pass of a step (stage 1).
  bool parts_only = false;
  /// Copy this rank's parts from the device to pinned host memory.
  bool to_host = false;
};

/// Accumulates the gradients of parameters in float32 buckets. As soon as a bucket is complete, it
/// is reduced, and this rank receives the mean of its part. All ranks reduce the buckets in the
/// same order.
///
///     gradients.begin(/*last=*/true);
///     loss.backward();
///     gradients.end();
///     use(gradients.part(0));
///     gradients.reset();
///
/// Not thread-safe, but the backward pass may use torch's threads.
class PartitionedGradients {
 public:
  /// Installs hooks on the parameters, which free each gradient after it is added to its bucket.
  /// `group`: null for one rank.
  PartitionedGradients(std::vector<at::Tensor> parameters, const Partition& partition,
                       comm::ProcessGroup* group, const GradientOptions& options);
  ~PartitionedGradients();
  PartitionedGradients(const PartitionedGradients&) = delete;
  PartitionedGradients& operator=(const PartitionedGradients&) = delete;

  /// Call before each backward pass. `last`: no other backward pass follows in this step. All ranks
  /// must run the same number of passes per step; a rank without data calls begin() and end() only.
  void begin(bool last);
  /// Call after each backward pass. After the last one, waits until all parts are averaged.
  void end();
  /// This rank's part of a bucket: 1-d float32, on the host if `to_host` is set. Valid from end()
  /// to reset(). The padding is undefined.
  at::Tensor part(std::size_t bucket) const;
  /// Whether this rank has a gradient for each parameter.
  const std::vector<bool>& present() const noexcept { return present_; }
  /// Starts a new step.
  void reset();

 private:
  class Hook;
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
    bool filled = false;   ///< whether the bucket contains a gradient of this parameter
    bool arrived = false;  ///< whether this backward pass has computed it
  };
  void arrived(std::size_t i);
  void send(std::size_t bucket);
  void complete(std::size_t bucket);
  at::Tensor own(std::size_t bucket) const;
  at::Tensor in_bucket(std::size_t bucket) const;
  at::Tensor take_memory(std::int64_t size);

  std::vector<at::Tensor> parameters_;
  const Partition& partition_;
  comm::ProcessGroup* group_;
  GradientOptions options_;
  at::TensorOptions device_;
  std::mutex mutex_;
  std::vector<Place> places_;
  std::vector<at::Tensor> memory_;  ///< one per bucket; undefined if not in use
  std::vector<at::Tensor> free_;    ///< with `parts_only`: memory of completed buckets
  std::int64_t common_size_ = 0;    ///< largest size of buckets with several parameters
  std::vector<at::Tensor> own_, host_;
  std::vector<std::size_t> missing_;
  std::vector<comm::Work> works_;
  std::size_t completed_ = 0;
  std::vector<bool> present_;
  bool sends_ = false, last_ = false, first_ = true;
};

}  // namespace anyaccel::llm
