// Collectives over shared memory between the ranks of one node.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/reduce_op.h"

namespace c10d {
class ProcessGroup;
}

namespace anyaccel::ops {

/// The ranks of a process group, which reduce and exchange tensors through memory that they share;
/// where they share none (several nodes), through the process group, with the reason in reason().
/// Several objects may be used side by side, for groups that overlap too.
///
/// Every rank calls the same functions with the same sizes and dtypes in the same order; shared
/// memory tells a rank that does not
/// (`invalid_argument`). Tensors may lie anywhere and have any strides: what is not contiguous host
/// memory is copied there and back. Reductions take floats of 16 to 64 bits, integers and bool;
/// complex numbers can be summed and averaged; integers not averaged; others are `unsupported`.
/// What only moves data takes every dtype. float16 and bfloat16 are added up in float32. All ranks
/// get the same bits.
///
/// A peer that died is `unavailable` on every other rank within a second, one that does not come
/// `timeout`; the object is then of no use. Thread-safe: calls of one object run one after the
/// other. Not usable in a forked child.
class ANYACCEL_API ShareMemComm {
 public:
  /// Called by all ranks of the group. Loads the op `ShareMemCommBuilder`; its errors are those of
  /// OpBuilder::load().
  explicit ShareMemComm(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        std::chrono::milliseconds timeout = std::chrono::minutes(30));
  /// The others get an error when they go on.
  ~ShareMemComm();
  ShareMemComm(const ShareMemComm&) = delete;
  ShareMemComm& operator=(const ShareMemComm&) = delete;

  /// Why the ranks go through the process group; empty when they share memory.
  const std::string& reason() const noexcept { return reason_; }
  /// By which ops that add up in the middle of their work take the group, such as
  /// `inference_decode`; of this process alone.
  const std::string& name() const noexcept { return name_; }

  /// In place.
  void all_reduce_(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  at::Tensor all_reduce(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// `count` elements at addresses of host memory, without a tensor and torch's dispatcher, which
  /// for a few KiB take longer than the reduction. `in` may be `out`; other overlaps may not be.
  void all_reduce(const void* in, void* out, std::int64_t count, c10::ScalarType dtype,
                  ReduceOp reduce = ReduceOp::sum);
  /// The tensors of all ranks one after the other along the first dimension.
  at::Tensor all_gather(const at::Tensor& tensor);
  /// This rank's part, along the first dimension, of the reduced tensor. `invalid_argument` when
  /// the dimension is no multiple of the number of ranks.
  at::Tensor reduce_scatter(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// In place, from the rank `source` of the group. Returns when all ranks have called it.
  void broadcast_(const at::Tensor& tensor, std::int64_t source);
  void barrier();

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::string name_;
  std::string reason_;
  using ReduceAt = void(void*, const void*, void*, std::int64_t, std::int8_t, int);
  void* group_at_ = nullptr;
  ReduceAt* reduce_at_ = nullptr;
};

}  // namespace anyaccel::ops
