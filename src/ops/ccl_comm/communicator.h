// oneCCL's communicators by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <oneapi/ccl.hpp>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::ops::ccl_comm {

/// oneCCL's communicator and the thread that calls it: a call waits for a rank that is gone without end, and only another thread
/// can give up. What is stuck then stays so, with all that it uses.
class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(int rank_in_group, int size_of_group, double seconds)
      : rank(rank_in_group), size(size_of_group), timeout(seconds) {}

  /// Starts the thread.
  void start(::ccl::shared_ptr_class<::ccl::kvs> kvs, ::ccl::communicator ccl);
  /// Has the thread post an operation with `post` and wait for it; calls follow each other. Throws `timeout` when that takes too long,
  /// and `invalid_state` ever after. `post` owns what it uses.
  void run(const char* where, std::function<::ccl::event(const ::ccl::communicator&)> post);

  const int rank;
  const int size;
  const std::chrono::duration<double> timeout;

 private:
  void work();

  ::ccl::shared_ptr_class<::ccl::kvs> kvs_;  // the communicator uses it
  std::unique_ptr<::ccl::communicator> ccl_;
  std::mutex calling_;  // one operation after the other
  bool broken_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::packaged_task<void()> task_;
};

/// An address for one group, of this process's own; bytes.
at::Tensor offer_address();
std::int64_t address_bytes();
/// Makes the group of a name, once. All its ranks call it, with the same address.
void make_comm(const std::string& name, std::int64_t size, std::int64_t rank, const at::Tensor& address,
               double timeout);
/// Throws `invalid_state` where there is none.
std::shared_ptr<Comm> find_comm(const std::string& name);

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
