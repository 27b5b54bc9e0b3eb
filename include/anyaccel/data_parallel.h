// Data-parallel training: every rank has the whole model and a part of the batch, and gradients are
// averaged while backward goes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "anyaccel/comm.h"
#include "anyaccel/export.h"

namespace anyaccel::comm {

struct DataParallelOptions {
  /// Most MiB of gradients in a bucket, as torch's DistributedDataParallel calls it. A larger
  /// gradient is a bucket of its own.
  double bucket_cap_mb = 25;
  /// The same for the first bucket of each dtype, so that something is sent early.
  double first_bucket_mb = 1;
};

/// Averages the gradients of a model over the ranks of a group, as torch's DistributedDataParallel
/// does.
///
/// Gradients are grouped in buckets, from the last parameter to the first, because backward comes
/// to them in about that order: give the parameters in the order in which the model uses them. Each
/// bucket is one piece of memory; after a backward pass the parameters' gradients are views of it.
/// A bucket whose gradients are all there is reduced at once, while backward goes on; buckets are
/// reduced in one order on all ranks.
///
/// A step: backward() on each rank, then finish(), then what uses the gradients. Between steps
/// gradients may be set to zero, or reset
/// (`mutable_grad().reset()`), which is faster. The mean is over ranks: where ranks have batches of
/// different size, each scales its loss by its share of the batch times the number of ranks.
///
///     DataParallel parallel(group, parameters);
///     loss.backward();
///     parallel.finish();
///     optimizer.step();
///
/// Several backward passes for one step (gradient accumulation): all but the last in the scope of a
/// no_sync().
///
/// Errors: wrong arguments are `invalid_argument`, on every rank where the parameters of ranks
/// differ; a second backward pass before finish() without no_sync() is `invalid_state`; sparse
/// gradients are `unsupported`. A rank that is gone or does not come is `unavailable` or `timeout`
/// from finish(), or from backward(); the object and its group are then of no use.
///
/// Not thread-safe, but backward may use threads of its own. The group must live longer, and its
/// other collectives wait until finish() has returned. One object a parameter: it has the
/// parameter's post-accumulate-grad hook.
class ANYACCEL_API DataParallel {
 public:
  /// Called by all ranks, with parameters of the same shapes and dtypes in the same order, each a
  /// dense floating-point leaf that requires a gradient. Their values become those of rank 0.
  DataParallel(ProcessGroup& group, std::vector<at::Tensor> parameters,
               const DataParallelOptions& options = {});
  /// The parameters and their gradients stay as they are.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Sends what is not sent yet and returns when all gradients are means (on an accelerator with
  /// streams: are queued). A parameter that got no gradient on this rank counts as zero; one that
  /// got none on any rank has none afterwards.
  void finish();

  /// While one lives, backward passes add to the gradients and send nothing.
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
  [[nodiscard]] NoSync no_sync();

  /// What is reduced together, in the order in which it is.
  struct Bucket {
    std::vector<std::size_t> parameters;  ///< by their place in the list that was given
    at::Tensor memory;  ///< one-dimensional, of the gradients' dtype: they are views of it
  };
  const std::vector<Bucket>& buckets() const noexcept;

  /// How many buckets of this step are reduced already; 0 after finish(). For the thread that runs
  /// backward, or its hooks.
  std::size_t reduced() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::comm
