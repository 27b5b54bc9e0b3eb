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

/// What all groups of a job have in common.
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
  /// `ranks` are those of the job, ascending; `rank` is this one's place among them. The store is
  /// the group's alone.
  Impl(c10::intrusive_ptr<c10d::Store> store, GroupSettings settings, std::vector<int> ranks,
       int rank);
  ~Impl();

  /// Shared memory where tensors like this one go through it, else null; what was begun there has
  /// ended. A call of all ranks.
  ops::ShareMemComm* memory_for(const at::Tensor& tensor);
  /// The same for any tensor of the host.
  ops::ShareMemComm* memory_in_turn();
  ops::ShareMemComm* memory();
  /// `call` in the group's thread, after what was begun before it; the tensor lives until then.
  std::shared_ptr<Work::State> begin_in_memory(const at::Tensor& tensor,
                                               std::function<void()> call);
  std::unique_ptr<Impl> part(std::vector<int> places);

  /// Posts with `call`, waits for its work. Errors become ours.
  template <typename Call>
  void run(const char* where, const Call& call);
  /// Posts with `call`; waiting is the state's.
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
  /// What keeps this rank from shared memory; empty when nothing does.
  std::string own_obstacle() const;
  std::string obstacle();

  c10::intrusive_ptr<c10d::Store> store_;
  std::mutex posting_;
  std::mutex memory_mutex_;
  bool memory_asked_ = false;
  std::unique_ptr<ops::ShareMemComm> memory_;  // goes before the group
  std::mutex executor_mutex_;
  std::shared_ptr<Work::State> last_queued_;
  std::unique_ptr<SerialExecutor> executor_;  // goes before what its tasks use
  pid_t process_ = ::getpid();
  std::mutex parts_mutex_;
  std::map<std::string, int> parts_;  // how many groups of these ranks there were
};

/// Rethrows the current exception as an Error.
[[noreturn]] void rethrow_as_error(const char* where);

}  // namespace anyaccel::comm
