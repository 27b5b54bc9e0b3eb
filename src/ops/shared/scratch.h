// Scratch memory for each thread of an op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "ops/shared/tasks.h"

namespace anyaccel::ops {

/// Holds `each` elements for every thread that parallel_tasks() may use. Each thread's part begins
/// at a cache line boundary.
template <typename T>
class ScratchMemory {
 public:
  explicit ScratchMemory(std::int64_t each)
      : threads_(task_threads()),
        each_((each + 15) / 16 * 16),
        at_(::operator new (static_cast<std::size_t>(threads_* each_) * sizeof(T),
                            std::align_val_t{64})) {}
  ~ScratchMemory() { ::operator delete (at_, std::align_val_t{64}); }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  std::int64_t threads() const { return threads_; }
  T* of(std::int64_t thread) const { return static_cast<T*>(at_) + thread * each_; }

 private:
  std::int64_t threads_, each_;
  void* at_;
};

}  // namespace anyaccel::ops
