// Collectives through shared memory between ranks on one host.
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

/// A group of ranks that communicates through shared memory. If the ranks do not share memory
/// (several hosts), they use the process group, and reason() explains why. Several objects may
/// exist, even for overlapping groups.
///
/// Every rank calls the same functions in the same order, with the same sizes and dtypes; a
/// mismatch in shared memory throws `invalid_argument`. Tensors may be on any device and have any
/// strides; those that are not contiguous in host memory are transferred through a host copy. All
/// ranks get bit-identical results.
///
/// Dtypes: functions that only move data support all dtypes. Reductions support floating-point
/// dtypes of 16 to 64 bits, integers and bool. Complex numbers can be summed and averaged. Integers
/// cannot be averaged. Other dtypes throw `unsupported`. float16 and bfloat16 are accumulated in
/// float32.
///
/// Errors: if a rank dies, all others throw `unavailable` within a second. If a rank does not
/// arrive, they throw `timeout`. The object is then unusable. It is also unusable in a forked
/// child.
///
/// Thread-safe: calls on one object are serialized, except abort().
class ANYACCEL_API ShareMemComm {
 public:
  /// Join the group. All ranks of `group` call it. Loads the op `ShareMemCommBuilder` and throws
  /// the same errors as OpBuilder::load().
  explicit ShareMemComm(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        std::chrono::milliseconds timeout = std::chrono::minutes(30));
  /// Leave the group. Other ranks that use the group afterwards get an error.
  ~ShareMemComm();
  ShareMemComm(const ShareMemComm&) = delete;
  ShareMemComm& operator=(const ShareMemComm&) = delete;

  /// Return the reason why the ranks use the process group, or an empty string if they share
  /// memory.
  const std::string& reason() const noexcept { return reason_; }
  /// Name under which ops that all-reduce internally, such as `inference_decode`, find this group.
  /// Valid in this process only.
  const std::string& name() const noexcept { return name_; }

  /// Reduce a tensor in place on all ranks.
  void all_reduce_(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// Return the reduced tensor without changing `tensor`.
  at::Tensor all_reduce(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// Reduce `count` elements in host memory. Bypasses tensors and torch's dispatcher, whose
  /// overhead exceeds the reduction time for a few KiB. `in` and `out` may be equal; otherwise they
  /// must not overlap.
  void all_reduce(const void* in, void* out, std::int64_t count, c10::ScalarType dtype,
                  ReduceOp reduce = ReduceOp::sum);
  /// Return the tensors of all ranks, concatenated along the first dimension in rank order.
  at::Tensor all_gather(const at::Tensor& tensor);
  /// Reduce a tensor and return this rank's part along the first dimension. Throws
  /// `invalid_argument` if the size of that dimension is not a multiple of the number of ranks.
  at::Tensor reduce_scatter(const at::Tensor& tensor, ReduceOp reduce = ReduceOp::sum);
  /// Copy the tensor of rank `source` into the tensors of all ranks. Returns when all ranks have
  /// called it.
  void broadcast_(const at::Tensor& tensor, std::int64_t source);
  /// Wait until all ranks have called barrier().
  void barrier();

  // The following functions take pointers to host memory and bypass tensors and the dispatcher.

  /// Gather `bytes` bytes from every rank. `out` receives one block per rank, in rank order. `in`
  /// may be this rank's block in `out`; otherwise they must not overlap.
  void all_gather(const void* in, void* out, std::int64_t bytes);
  /// Reduce blocks of `count` elements. `in` has one block per rank; `out` receives this rank's
  /// reduced block. `out` may be this rank's block in `in`; otherwise they must not overlap.
  void reduce_scatter(const void* in, void* out, std::int64_t count, c10::ScalarType dtype,
                      ReduceOp reduce = ReduceOp::sum);
  /// Copy `bytes` bytes from rank `source` to all ranks.
  void broadcast(void* data, std::int64_t bytes, std::int64_t source);

  /// Change the time limit of later operations. Waits for an operation in progress. Applies to
  /// shared memory only: the process group has its own limit. Throws `invalid_argument` if the
  /// limit is below 1 ms.
  void set_timeout(std::chrono::milliseconds timeout);
  /// Make operations on all ranks, including operations in progress, throw `unavailable`. Does
  /// nothing if the ranks do not share memory.
  void abort();

 private:
  /// Pointers to the op's functions. Calls through them bypass the dispatcher.
  struct Calls {
    using Reduce = void(void*, const void*, void*, std::int64_t, std::int8_t, int);
    Reduce* reduce;
    void (*gather)(void*, const void*, void*, std::int64_t);
    Reduce* scatter;
    void (*broadcast)(void*, void*, std::int64_t, std::int64_t);
    void (*barrier)(void*);
    void (*set_timeout)(void*, std::int64_t);
    void (*abort)(void*);
  };
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::string name_;
  std::string reason_;
  void* group_at_ = nullptr;
  Calls calls_{};
};

}  // namespace anyaccel::ops
