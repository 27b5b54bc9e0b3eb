// Data-parallel training: every rank holds the whole model and processes part of the batch, and
// gradients are averaged during the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "anyaccel/comm.h"
#include "anyaccel/export.h"

namespace anyaccel::comm {

/// Options for DataParallel. All ranks must pass the same values.
struct DataParallelOptions {
  /// Maximum MiB of gradients per bucket, as in torch's DistributedDataParallel. A larger gradient
  /// gets its own bucket.
  double bucket_cap_mb = 25;
  /// Maximum MiB of the first bucket of each dtype and device. It is small so that communication
  /// starts early.
  double first_bucket_mb = 1;
};

/// Averages the gradients of a model over the ranks of a group, like torch's
/// DistributedDataParallel.
///
///     DataParallel parallel(group, model->parameters());
///     loss.backward();
///     parallel.finish();
///     optimizer.step();
///
/// In each step, all ranks call backward(), then finish(), then use the gradients. Between steps,
/// gradients may be zeroed or reset (`mutable_grad().reset()`); resetting is faster. For gradient
/// accumulation, run all backward passes except the last in the scope of no_sync().
///
/// Gradients are averaged over ranks. If the ranks' batch sizes differ, multiply each rank's loss
/// by the number of ranks and by the rank's fraction of the global batch.
///
/// Gradients are grouped into buckets, from the last parameter to the first, because the backward
/// pass computes them in about that order. Pass the parameters in the order in which the model uses
/// them. After a backward pass, the parameters' gradients are views of the buckets' memory. A
/// bucket is reduced as soon as all its gradients are ready. All ranks reduce the buckets in the
/// same order.
///
/// Errors: `invalid_argument` for invalid arguments (if the parameters differ between ranks, every
/// rank throws it); `invalid_state` for a second backward pass before finish() outside no_sync(),
/// for finish() inside no_sync(), and for parameters that already have a post-accumulate-grad hook;
/// `unsupported` for sparse gradients. If a rank dies or does not arrive, finish() or backward()
/// throws `unavailable` or `timeout`, and the object and its group are then unusable.
///
/// Not thread-safe, but the backward pass may use torch's threads. The group must outlive this
/// object. Do not call other collectives on the group between the start of the backward pass and
/// the end of finish(). Create at most one DataParallel per parameter.
class ANYACCEL_API DataParallel {
 public:
  /// Install hooks on the parameters and set their values to those of rank 0. All ranks must pass
  /// parameters with the same shapes and dtypes, in the same order. Each must be a dense
  /// floating-point leaf that requires a gradient.
  DataParallel(ProcessGroup& group, std::vector<at::Tensor> parameters,
               const DataParallelOptions& options = {});
  /// Remove the hooks. The parameters and their gradients keep their values.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Reduce the remaining buckets and wait until all gradients are averaged (on an accelerator with
  /// streams: until the averaging is queued). If a parameter has no gradient on this rank, zeros
  /// are averaged instead. A parameter without a gradient on any rank still has none afterwards.
  void finish();

  /// While an object of this class exists, backward passes accumulate gradients without
  /// communication.
  class NoSync {
   public:
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class DataParallel;
    explicit NoSync(int& depth) : depth_(depth) { ++depth_; }
    int& depth_;
  };
  /// Return a guard that disables communication until it is destroyed.
  [[nodiscard]] NoSync no_sync();

  /// Gradients that are reduced together.
  struct Bucket {
    std::vector<std::size_t> parameters;  ///< indices into the list of parameters
    at::Tensor memory;  ///< 1-d, with the gradients' dtype; the gradients are views of it
  };
  /// The buckets in the order in which they are reduced.
  const std::vector<Bucket>& buckets() const noexcept;

  /// Return the number of buckets reduced so far in this step, or 0 after finish(). Call it from
  /// the thread that runs the backward pass, or from a hook of that pass.
  std::size_t reduced() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::comm
