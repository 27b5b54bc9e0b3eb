// Handlers for fork(). In the child, they release locks that other threads held, and close
// descriptors that only the parent may hold, so that other processes notice when the parent exits.
#pragma once

#include <mutex>

#include "anyaccel/export.h"

namespace anyaccel {

/// A mutex for short critical sections: while holding it, do not wait, start programs or take other
/// locks. fork() acquires the mutex first, so in the child it is free and the data that it protects
/// is consistent. Only for objects that live as long as the process.
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

/// Makes children close the descriptor at fork(), so that a process waiting for end-of-file on a
/// pipe, or for a file lock, does not also wait for the children. Returns false if the table is
/// full; children then inherit the descriptor. Thread-safe.
ANYACCEL_API bool close_in_children(int descriptor) noexcept;
/// Unregisters the descriptor. Call it before closing the descriptor in this process.
ANYACCEL_API void forget_in_children(int descriptor) noexcept;

}  // namespace anyaccel
