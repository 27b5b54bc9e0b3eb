// oneCCL communicators, identified by name.
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

/// A oneCCL communicator and the thread that calls it. A call to oneCCL waits forever for a rank
/// that has died, so calls run on a separate thread, which the caller can abandon. A call that
/// never returns keeps the thread and all of the call's data alive. The oneCCL communicator is
/// never destroyed, because its destructor does not wait until the other ranks have finished with
/// it.
class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(int rank_in_group, int size_of_group, double seconds, std::string address_of_group);
  ~Comm();

  void start(const ::ccl::shared_ptr_class<::ccl::kvs>& kvs, ::ccl::communicator ccl);
  /// Runs `post`, which posts an operation, on the communicator's thread and waits for the
  /// operation. Calls are serialized. Throws `timeout`, or `unavailable` if a watched rank has
  /// exited; all later calls throw `invalid_state`. `post` must own everything that it uses.
  void run(const char* where, std::function<::ccl::event(const ::ccl::communicator&)> post);
  /// Watches the processes of other ranks on this machine. If one of them exits, operations fail
  /// within seconds instead of waiting for the timeout.
  void watch(c10::IntArrayRef ranks, c10::IntArrayRef processes);
  /// Lets the thread exit as soon as it is idle.
  void stop();

  const int rank;
  const int size;
  const std::chrono::duration<double> timeout;
  const std::string address;

 private:
  void work();
  /// Returns a watched rank whose process has exited, or -1 if there is none.
  std::int64_t gone_rank() const;

  ::ccl::communicator* ccl_ = nullptr;  // never deleted
  const pid_t process_;
  std::mutex calling_;  // serializes operations
  bool broken_ = false;
  std::vector<pollfd> watched_;  // process file descriptors
  std::vector<std::int64_t> watched_ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::packaged_task<void()> task_;
};

/// Returns a new address for one group, as bytes. This process serves the address.
at::Tensor offer_address();
std::int64_t address_bytes();
/// Creates the group `name`. All ranks call it with the same address. If the group exists with this
/// address, the call does nothing; if it exists with a different address, the call creates it
/// again.
void make_comm(const std::string& name, std::int64_t size, std::int64_t rank,
               const at::Tensor& address, double timeout);
/// Returns the group `name`. Throws `invalid_state` if it does not exist.
std::shared_ptr<Comm> find_comm(const std::string& name);
/// Removes the group `name` if it exists. Does not synchronize with other ranks.
void close_comm(const std::string& name);

/// Runs `call` and converts oneCCL's exceptions to Error.
template <typename Call>
auto calling(const char* where, const Call& call) {
  try {
    return call();
  } catch (const ::ccl::exception& error) {
    throw Error(ErrorCode::unavailable, where,
                {.what = std::string("oneCCL failed: ") + error.what()});
  }
}

}  // namespace anyaccel::ops::ccl_comm
