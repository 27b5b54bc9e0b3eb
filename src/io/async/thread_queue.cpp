// A queue that uses blocking reads and writes on threads. It works on every system and with any
// file.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "anyaccel/error.h"
#include "io/async/queue.h"

namespace anyaccel::ops::aio {

namespace {

constexpr unsigned kThreads = 8;

class ThreadQueue final : public Queue {
 public:
  explicit ThreadQueue(unsigned depth) : depth_(depth) {
    threads_.reserve(kThreads);
    try {
      while (threads_.size() < std::min(depth, kThreads)) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error& error) {
      // With fewer threads, the queue is only slower.
      if (threads_.empty())
        throw Error(ErrorCode::unavailable, "threads",
                    {.what = std::string("cannot create a thread: ") + error.what()});
    }
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  const char* name() const noexcept override { return "threads"; }

  std::size_t submit(Transfer* const* transfers, std::size_t count) override {
    const auto room = std::min(count, depth_ - std::min(depth_, under_way_));
    {
      const std::lock_guard lock(mutex_);
      done_.reserve(under_way_ + room);
      waiting_.insert(waiting_.end(), transfers, transfers + room);
    }
    under_way_ += room;
    room > 1 ? work_.notify_all() : work_.notify_one();
    return room;
  }

  void reap(std::size_t least, std::vector<Transfer*>& done) override {
    std::unique_lock lock(mutex_);
    least = std::min(least, under_way_);
    some_done_.wait(lock, [&] { return done_.size() >= least; });
    done.insert(done.end(), done_.begin(), done_.end());
    under_way_ -= done_.size();
    done_.clear();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto* transfer = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const auto moved =
          transfer->write
              ? ::pwrite(transfer->file, transfer->memory, transfer->bytes, transfer->offset)
              : ::pread(transfer->file, transfer->memory, transfer->bytes, transfer->offset);
      transfer->result = moved < 0 ? -errno : moved;
      lock.lock();
      done_.push_back(transfer);  // does not allocate, because the capacity is reserved
      some_done_.notify_one();
    }
  }

  const std::size_t depth_;
  std::size_t under_way_ = 0;  // used only by the thread that owns the queue
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable some_done_;
  std::deque<Transfer*> waiting_;
  std::vector<Transfer*> done_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Queue> make_thread_queue(unsigned depth) {
  return std::make_unique<ThreadQueue>(depth);
}

}  // namespace anyaccel::ops::aio
