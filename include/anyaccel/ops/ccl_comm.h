// Collectives of oneCCL between processes, on one node or several.
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

/// A group of ranks that exchanges tensors through oneCCL (the op `CCLCommBuilder`, which is built
/// where oneCCL is). comm.h has it as a backend of torch.distributed's kind, "ccl". Several objects
/// may be used side by side, for groups that overlap too.
///
/// Every rank calls the same functions with the same sizes and dtypes in the same order. Tensors
/// may lie anywhere and have any strides: what is not contiguous host memory is copied there and
/// back. Reductions take float16, bfloat16, float32, float64, uint8, int8 to int64 and bool; `avg`
/// is for floats; others are `unsupported`. What only moves data takes every dtype.
///
/// A function returns when its result is there. A rank of this machine whose process has ended is
/// `unavailable` within seconds, one that does not come, or of another machine, is `timeout`; the
/// object is then of no use (`invalid_state`). Thread-safe: calls of one object run one after the
/// other. In a forked child `invalid_state`.
class ANYACCEL_API CCLComm {
 public:
  /// Called by all ranks, which meet in the store; it is the group's alone. `unavailable` on all of
  /// them when one cannot have oneCCL, with its reason; `timeout` when one does not come to the
  /// store.
  CCLComm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          std::chrono::milliseconds timeout = std::chrono::minutes(30));
  /// Waits for nobody.
  ~CCLComm();
  CCLComm(const CCLComm&) = delete;
  CCLComm& operator=(const CCLComm&) = delete;

  /// In place.
  void all_reduce_(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// In place on rank `destination`; the others keep theirs.
  void reduce_(const at::Tensor& tensor, std::int64_t destination, ReduceOp reduce = ReduceOp::sum);
  /// In place, from rank `source`.
  void broadcast_(const at::Tensor& tensor, std::int64_t source);
  /// The tensors of all ranks one after the other along the first dimension.
  at::Tensor all_gather(const at::Tensor& tensor);
  /// This rank's part, along the first dimension, of the reduced tensor; the dimension is a
  /// multiple of the number of ranks.
  at::Tensor reduce_scatter(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// Rows of the first dimension, `input_splits[i]` of them to rank i and `output_splits[i]` from
  /// it; empty: as many for each.
  at::Tensor all_to_all(const at::Tensor& tensor,
                        const std::vector<std::int64_t>& output_splits = {},
                        const std::vector<std::int64_t>& input_splits = {});
  void barrier();

 private:
  std::string name_;
};

}  // namespace anyaccel::ops
