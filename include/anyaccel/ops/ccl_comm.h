// oneCCL collectives between processes on one or more hosts.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/reduce_op.h"

namespace c10d {
class Store;
}

namespace anyaccel::ops {

/// A group of ranks that communicates through oneCCL. It uses the op `CCLCommBuilder`, which is
/// built if oneCCL is installed. comm.h offers it as the backend "ccl". Several objects may exist,
/// even for overlapping groups.
///
/// Every rank calls the same functions in the same order, with the same sizes and dtypes. A
/// function returns when its result is complete. Tensors may be on any device and have any strides;
/// those that are not contiguous in host memory are transferred through a host copy.
///
/// Dtypes: functions that only move data support all dtypes. Reductions support float16, bfloat16,
/// float32, float64, uint8, int8, int16, int32, int64 and bool. `avg` requires a floating-point
/// dtype. Other dtypes throw `unsupported`.
///
/// Errors: if a rank on this host has exited, the other ranks throw `unavailable` within seconds.
/// If a rank does not arrive, or a rank on another host has exited, they throw `timeout`. The
/// object is then unusable (`invalid_state`). In a forked child, functions throw `invalid_state`.
///
/// Thread-safe: calls on one object are serialized.
class ANYACCEL_API CCLComm {
 public:
  /// Join the group. All ranks call it with the same store, which must not be used for anything
  /// else. Throws `unavailable` on all ranks, with the reason, if one of them cannot use oneCCL,
  /// and `timeout` if a rank does not reach the store.
  CCLComm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          std::chrono::milliseconds timeout = std::chrono::minutes(30));
  /// Leave the group. Does not synchronize with other ranks.
  ~CCLComm();
  CCLComm(const CCLComm&) = delete;
  CCLComm& operator=(const CCLComm&) = delete;

  /// Reduce a tensor in place on all ranks.
  void all_reduce_(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// Reduce a tensor in place on rank `destination`. The tensors of all other ranks are unchanged.
  void reduce_(const at::Tensor& tensor, std::int64_t destination, ReduceOp reduce = ReduceOp::sum);
  /// Copy the tensor of rank `source` into the tensors of all ranks.
  void broadcast_(const at::Tensor& tensor, std::int64_t source);
  /// Return the tensors of all ranks, concatenated along the first dimension in rank order.
  at::Tensor all_gather(const at::Tensor& tensor);
  /// Reduce a tensor and return this rank's part along the first dimension. The size of that
  /// dimension must be a multiple of the number of ranks.
  at::Tensor reduce_scatter(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// Exchange rows along the first dimension: `input_splits[i]` rows go to rank i and
  /// `output_splits[i]` rows come from it. Empty splits divide the rows evenly among the ranks.
  at::Tensor all_to_all(const at::Tensor& tensor,
                        const std::vector<std::int64_t>& output_splits = {},
                        const std::vector<std::int64_t>& input_splits = {});
  /// Wait until all ranks have called barrier().
  void barrier();

 private:
  std::string name_;
};

}  // namespace anyaccel::ops
