// oneCCL's communicators by name.
#pragma once

#include <ATen/core/Tensor.h>
#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <oneapi/ccl.hpp>
#include <string>
#include <vector>

#include "anyaccel/error.h"

namespace anyaccel::ops::ccl_comm {

/// oneCCL's communicator and the thread that calls it: a call waits for a rank that is gone without
/// end, and only another thread can give up. What is stuck then stays so, with all that it uses.
/// oneCCL's communicators are never destroyed: its end of one waits for nobody's word that the
/// other ranks are done with it.
class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(int rank_in_group, int size_of_group, double seconds, std::string address_of_group);
  ~Comm();

  /// Starts the thread.
  void start(const ::ccl::shared_ptr_class<::ccl::kvs>& kvs, ::ccl::communicator ccl);
  /// Has the thread post an operation with `post` and wait for it; calls follow each other. Throws
  /// `timeout` when that takes too long, `unavailable` when a rank that is watched is gone, and
  /// `invalid_state` ever after. `post` owns what it uses.
  void run(const char* where, std::function<::ccl::event(const ::ccl::communicator&)> post);
  /// From now on a rank whose process on this machine has ended is an error within seconds, and no
  /// timeout.
  void watch(c10::IntArrayRef ranks, c10::IntArrayRef processes);
  /// The thread ends once it has nothing to do.
  void stop();

  const int rank;
  const int size;
  const std::chrono::duration<double> timeout;
  const std::string address;

 private:
  void work();
  /// A watched rank that is gone; -1: all are there.
  std::int64_t gone_rank() const;

  ::ccl::communicator* ccl_ = nullptr;  // never deleted
  const pid_t process_;
  std::mutex calling_;  // one operation after the other
  bool broken_ = false;
  std::vector<pollfd> watched_;  // descriptors of processes
  std::vector<std::int64_t> watched_ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::packaged_task<void()> task_;
};

/// An address for one group, of this process's own; bytes.
at::Tensor offer_address();
std::int64_t address_bytes();
/// Makes the group of a name. All its ranks call it, with the same address; with the one that the
/// group has nothing is done, with another one the group is made anew.
void make_comm(const std::string& name, std::int64_t size, std::int64_t rank,
               const at::Tensor& address, double timeout);
/// Throws `invalid_state` where there is none.
std::shared_ptr<Comm> find_comm(const std::string& name);
/// Forgets a group, where there is one. This rank's own affair.
void close_comm(const std::string& name);

/// oneCCL's errors become ours.
template <typename Call>
auto calling(const char* where, const Call& call) {
  try {
    return call();
  } catch (const ::ccl::exception& error) {
    throw Error(ErrorCode::unavailable, where, {.what = "oneCCL failed", .got = error.what()});
  }
}

}  // namespace anyaccel::ops::ccl_comm
