// The state of a ProcessGroup.
#pragma once

#include <unistd.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "anyaccel/comm.h"
#include "anyaccel/ops/shm_comm.h"
#include "comm/serial_executor.h"

namespace anyaccel::comm {

/// Settings shared by all groups of a job.
struct GroupSettings {
  std::string backend;
  std::chrono::milliseconds timeout;
  bool shared_memory;
};

class Work::State {
 public:
  virtual ~State() = default;
  virtual bool done() const = 0;
  virtual void wait() = 0;
};

class ANYACCEL_LOCAL ProcessGroup::Impl {
 public:
  /// `ranks` are the group's ranks in the job, ascending; `rank` is this process's index among
  /// them. Nothing else may use the store.
  Impl(c10::intrusive_ptr<c10d::Store> store, GroupSettings settings, std::vector<int> ranks,
       int rank);
  ~Impl();

  /// Returns shared memory for tensors like this one, or null if they cannot use it. Waits for
  /// asynchronous operations in shared memory. All ranks must call it.
  ops::ShareMemComm* memory_for(const at::Tensor& tensor);
  /// Like memory_for(), but without checking a tensor. For host tensors and for operations without
  /// tensors.
  ops::ShareMemComm* memory_in_turn();
  ops::ShareMemComm* memory();
  /// Runs `call` on the group's thread after all earlier operations. Keeps the tensor alive until
  /// then.
  std::shared_ptr<Work::State> begin_in_memory(const at::Tensor& tensor,
                                               std::function<void()> call);
  std::unique_ptr<Impl> part(std::vector<int> places);

  /// Posts an operation with `call` and waits for it. Converts exceptions to Error.
  template <typename Call>
  void run(const char* where, const Call& call);
  /// Posts an operation with `call`. The returned state can be used to wait for it.
  template <typename Call>
  std::shared_ptr<Work::State> begin(const char* where, const at::Tensor& tensor, const Call& call);
  void check_rank(const char* where, int other) const;

  const GroupSettings settings;
  const std::vector<int> ranks;
  const int rank;
  const int size;
  std::string backend_reason;
  std::string memory_reason;
  c10::intrusive_ptr<c10d::ProcessGroup> group;

 private:
  std::string obstacle();

  c10::intrusive_ptr<c10d::Store> store_;
  std::mutex posting_;
  std::mutex memory_mutex_;
  bool memory_asked_ = false;
  std::unique_ptr<ops::ShareMemComm> memory_;  // destroyed before the group
  std::mutex executor_mutex_;
  std::shared_ptr<Work::State> last_queued_;
  std::unique_ptr<SerialExecutor> executor_;  // destroyed before the objects that its tasks use
  pid_t process_ = ::getpid();
  std::mutex parts_mutex_;
  std::map<std::string, int> parts_;  // number of groups created so far, per set of ranks
};

/// Rethrows the current exception as an Error.
[[noreturn]] void rethrow_as_error(const char* where);

}  // namespace anyaccel::comm
