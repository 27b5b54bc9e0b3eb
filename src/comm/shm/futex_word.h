// A 32-bit integer in shared memory that one process sets while others wait for it to change.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace anyaccel::ops::shm {

/// set() makes a system call only if a process is sleeping.
class FutexWord {
 public:
  std::uint32_t get() const noexcept { return value_.load(std::memory_order_acquire); }

  void set(std::uint32_t value) noexcept {
    value_.store(value, std::memory_order_seq_cst);  // must be visible before sleepers_ is read
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_all();
  }

  /// Sleeps until the integer changes or `most` has passed; may return earlier. Does not sleep if
  /// the integer has already reached `wanted`.
  void sleep_until_changed(std::uint32_t wanted, std::chrono::nanoseconds most) noexcept {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const auto now = value_.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(wanted - now) > 0) {
      const timespec time{static_cast<time_t>(most.count() / 1'000'000'000),
                          static_cast<long>(most.count() % 1'000'000'000)};
      ::syscall(SYS_futex, &value_, FUTEX_WAIT, now, &time, nullptr, 0);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  void wake_all() noexcept {
    ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace anyaccel::ops::shm
