// The c10d backend that runs collectives over shared memory.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/ops/shm_comm.h"
#include "comm/staged.h"

namespace anyaccel::comm {

/// A StagedBackend whose host backend is make_shm_host(), with a fast path for synchronous
/// all-reduces.
class ShmBackend final : public StagedBackend {
 public:
  ShmBackend(std::shared_ptr<ops::ShareMemComm> memory, c10::intrusive_ptr<c10d::Backend> gloo,
             const GroupOptions& options);

  /// Takes sparse tensors too; gloo reduces them.
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  /// Called by c10d for every backend of a group that is split. Returns null if this rank is not in
  /// `ranks`.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  /// False if a device is bound to the group, because new_group() in Python then calls a function
  /// that only NCCL's backend has.
  bool supportsSplitting() const override { return !getBoundDeviceId().has_value(); }

 private:
  at::Tensor add_reduced(Operation& operation, const at::Tensor& tensor, c10d::ReduceOp& reduce,
                         Use use) const override;
  /// Returns false if operations are queued or a copy is needed. Otherwise reduces the tensor on
  /// this thread and returns true.
  bool reduce_directly(const at::Tensor& tensor, const c10d::AllreduceOptions& options);

  const std::shared_ptr<ops::ShareMemComm> memory_;
  const c10::intrusive_ptr<c10d::Backend> gloo_;
  std::mutex parts_mutex_;
  std::map<std::string, int> parts_;  // number of groups split off so far, per set of ranks
};

}  // namespace anyaccel::comm
