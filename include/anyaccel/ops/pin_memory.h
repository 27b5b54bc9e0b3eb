// Pinned host memory: tensors that devices copy and disks transfer without a buffer between.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Numbers of the process's pool of memory locked by the system; the accelerator's own allocator
/// has `Accelerator::host_memory_stats()`.
struct PinMemoryStats {
  std::int64_t used_bytes = 0;  ///< in blocks that tensors hold
  std::int64_t used_peak = 0;
  std::int64_t held_bytes = 0;  ///< locked, free blocks that wait to be used again too
  std::int64_t held_peak = 0;
  std::int64_t limit = 0;      ///< most bytes that the pool locks; 0: as many as the system lets it
  std::int64_t taken = 0;      ///< allocations
  std::int64_t reused = 0;     ///< of those, served by a free block
  std::int64_t misplaced = 0;  ///< blocks that the system would not put on the thread's NUMA node
};

/// DeepSpeed's pin_handle. Handles have no state of their own: memory belongs to the process.
/// Thread-safe. The first one loads the op `PinMemoryBuilder`; its errors are those of
/// OpBuilder::load().
class ANYACCEL_API PinHandle {
 public:
  PinHandle();
  /// A one-dimensional, uninitialized tensor of the example's dtype. On an accelerator that pins
  /// memory it comes from that accelerator's allocator, which its copies know. Elsewhere it is
  /// page-aligned, locked in memory (mlock) and placed on the NUMA node that the thread runs on.
  /// `out_of_memory` names the limit: RLIMIT_MEMLOCK, or ANYACCEL_PIN_MEMORY_LIMIT;
  /// `invalid_argument` for a negative number.
  at::Tensor new_cpu_locked_tensor(std::int64_t elements, const at::Tensor& example);
  /// Says that a tensor of new_cpu_locked_tensor() is no longer wanted: is_pinned() is false
  /// afterwards, where the system's lock made it. False when it is none, a view that does not begin
  /// where it does, or freed already. Tensors that still use the memory keep it; it is used again
  /// when the last one is gone, which suffices without this call too.
  bool free_cpu_locked_tensor(const at::Tensor& locked);
  /// The same by data_ptr(), for memory that the system locked.
  bool free_cpu_locked_tensor_by_ptr(std::uintptr_t address);
  /// True when all that the tensor can reach is pinned, by the accelerator or by the system; views
  /// too.
  bool is_pinned(const at::Tensor& buffer) const;

  PinMemoryStats stats() const;
  /// Unlocks free blocks and returns them to the system.
  void trim();
  /// `invalid_argument` when negative. What is locked already stays.
  void set_limit(std::int64_t bytes);
};

}  // namespace anyaccel::ops
