// The c10d backend that stages tensors through host memory.
#pragma once

#include <unistd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "anyaccel/comm.h"
#include "comm/serial_executor.h"
#include "comm/work.h"

namespace anyaccel::comm {

class StagedBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// `host` is the backend for host tensors. Its work objects may run their operations in wait().
  StagedBackend(c10::intrusive_ptr<c10d::Backend> host, const GroupOptions& options,
                std::string name = kStaged);
  ~StagedBackend() override;

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void abort() override { host_->abort(); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  /// Operations that this thread posts before endCoalescing() start immediately; the work object
  /// that endCoalescing() returns waits for all of them.
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) override;

 protected:
  /// Posts an operation to the host backend and returns its work object.
  using Post = std::function<WorkPtr(c10d::Backend&)>;

  /// One operation: its copies, and its steps on the host.
  struct Operation {
    const char* name;  // name of the operation in torch.distributed, for messages
    c10d::OpType type;
    std::shared_ptr<Staging> staging;
    std::vector<Post> posts;                 // each step waits for the previous one
    std::function<void()> finish_on_host{};  // runs after all posts
    Tensors outputs{};
  };

  Operation operation(const char* name, c10d::OpType type) const;
  /// Checks a reduction and adds its tensor. Changes `reduce` to an operation that the host backend
  /// supports.
  virtual at::Tensor add_reduced(Operation& operation, const at::Tensor& tensor,
                                 c10d::ReduceOp& reduce, Use use) const;
  /// Queues an operation, or runs it on this thread if it is synchronous and may run inline.
  WorkPtr run(Operation operation, bool async);
  /// Returns true if no collective is queued or in progress.
  bool is_idle() const noexcept { return queued_ == 0; }
  /// Throws `invalid_state` in a forked child.
  void check_process(const char* name) const;
  void check_rank(const char* name, int64_t rank) const;

  std::atomic<uint64_t> sequence_{0};
  c10::intrusive_ptr<Options> options_;
  /// Whether synchronous operations on host tensors run on the caller's thread if nothing is
  /// queued. Requires a host backend whose work objects run their operations in wait().
  bool runs_inline_ = false;

 private:
  /// Runs an operation's steps on the host. Returns null, or the error.
  std::exception_ptr perform(const Operation& operation) noexcept;
  WorkPtr run_beside(Operation operation);
  c10::intrusive_ptr<StagedWork> start(Operation& operation);
  /// If this thread is coalescing operations, adds `work` to its list.
  void coalesce(const WorkPtr& work);
  WorkPtr post(const Post& post);
  std::exception_ptr explained(const char* name, std::exception_ptr error) const;
  const at::Tensor& only(const char* name, const Tensors& tensors) const;
  void check_lists(const char* name, const Lists& lists, const Tensors& single) const;
  void check_multiple(const char* name, const at::Tensor& large, const at::Tensor& small) const;
  void join_finished(bool all);

  const std::string name_;
  c10::intrusive_ptr<c10d::Backend> host_;
  std::shared_ptr<Channels> channels_ = std::make_shared<Channels>();
  std::mutex host_mutex_;       // serializes posting to the host backend
  std::atomic<int> queued_{0};  // collectives that are queued or in progress on the executor
  std::mutex coalesced_mutex_;
  std::map<std::thread::id, std::vector<WorkPtr>> coalesced_;  // one list per coalescing thread
  pid_t process_ = ::getpid();

  struct Waiter {
    std::shared_ptr<std::atomic<bool>> done;
    std::thread thread;
  };
  std::mutex waiters_mutex_;
  std::vector<Waiter> waiters_;  // threads that wait for sends and receives
  // Declare the executors last, so that they are destroyed first: their tasks use the other
  // members.
  std::unique_ptr<SerialExecutor> collectives_;
  std::unique_ptr<SerialExecutor> messages_;
};

}  // namespace anyaccel::comm
