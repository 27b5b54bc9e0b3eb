// What must not outlive fork() in the child: short locks that another thread may hold, and
// descriptors that stand for the parent's life.
#pragma once

#include <mutex>

#include "anyaccel/export.h"

namespace anyaccel {

/// A mutex for short sections (no waits, no programs, no other lock inside). A child that is forked
/// while another thread holds it finds it free and what it guards whole. Only for objects that live
/// as long as the process.
class ANYACCEL_API ForkSafeMutex {
 public:
  ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// The descriptor is closed in children from now on, at fork(): what waits for its end (a pipe), or
/// for its lock, waits for this process alone. False when there is no room left, and then it is
/// inherited as usual. Thread-safe.
ANYACCEL_API bool close_in_children(int descriptor) noexcept;
/// Before it is closed here.
ANYACCEL_API void forget_in_children(int descriptor) noexcept;

}  // namespace anyaccel
