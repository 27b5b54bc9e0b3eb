// Work object for a staged operation.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <string>
#include <utility>
#include <vector>

#include "comm/staging.h"

namespace anyaccel::comm {

/// Completes when the copies to the devices are queued. wait() makes the current streams wait for
/// these copies.
class StagedWork final : public c10d::Work {
 public:
  StagedWork(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> outputs,
             std::vector<c10::Device> devices);

  /// Called once, by the thread that ran the operation. For a receive from any rank, `source_rank`
  /// is the sender's rank.
  void succeed(Staging& staging, int source_rank);
  void fail(std::exception_ptr error);

  void synchronize() override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  int sourceRank() const override { return source_rank_; }

 private:
  std::vector<at::Tensor> outputs_;
  std::vector<std::pair<DeviceIndex, Event>> done_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_rank_ = -1;
};

}  // namespace anyaccel::comm
