// Pinned host memory: tensors that devices and disks can access without an intermediate buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Statistics for the process-wide pool of memory that is locked with mlock(). For the
/// accelerator's allocator of pinned memory, see `Accelerator::host_memory_stats()`.
struct PinMemoryStats {
  std::int64_t used_bytes = 0;  ///< bytes in blocks that tensors use
  /// Peak of `used_bytes`.
  std::int64_t used_peak = 0;
  std::int64_t held_bytes = 0;  ///< locked bytes, including free blocks
  /// Peak of `held_bytes`.
  std::int64_t held_peak = 0;
  /// Maximum number of locked bytes. 0: only the system's limit.
  std::int64_t limit = 0;
  std::int64_t taken = 0;      ///< number of allocations
  std::int64_t reused = 0;     ///< number of allocations that reused a free block
  std::int64_t misplaced = 0;  ///< number of blocks not on the allocating thread's NUMA node
};

/// Creates pinned tensors, like DeepSpeed's pin_handle. Handles are stateless; the pool belongs to
/// the process. The first handle loads the op `PinMemoryBuilder` and throws the same errors as
/// OpBuilder::load(). Thread-safe.
class ANYACCEL_API PinHandle {
 public:
  PinHandle();
  /// Create a 1-d, uninitialized tensor with `elements` elements and the dtype of `example`. If the
  /// accelerator pins memory, the tensor comes from its allocator. Otherwise, the tensor is
  /// page-aligned, locked in memory (mlock) and placed on the NUMA node of the calling thread.
  /// Throws `out_of_memory`, naming the limit if one was reached (RLIMIT_MEMLOCK or
  /// ANYACCEL_PIN_MEMORY_LIMIT), and `invalid_argument` for a negative number.
  at::Tensor new_cpu_locked_tensor(std::int64_t elements, const at::Tensor& example);
  /// Mark a tensor from new_cpu_locked_tensor() as no longer needed. If its memory is locked with
  /// mlock(), is_pinned() is false afterwards. Tensors that still use the memory keep it. The
  /// memory is reused when the last of these tensors is destroyed, even without this call. Returns
  /// false for any other tensor, for views that do not begin where the tensor does, and for tensors
  /// that were already freed.
  bool free_cpu_locked_tensor(const at::Tensor& locked);
  /// Mark the tensor with this data_ptr() as no longer needed. Only for memory that is locked with
  /// mlock().
  bool free_cpu_locked_tensor_by_ptr(std::uintptr_t address);
  /// Return whether all memory that the tensor, which may be a view, can access is pinned by the
  /// accelerator or locked with mlock().
  bool is_pinned(const at::Tensor& buffer) const;

  /// Pool statistics.
  PinMemoryStats stats() const;
  /// Unlock free blocks and return them to the system.
  void trim();
  /// Set the maximum number of locked bytes; 0 removes the limit. Memory that is already locked
  /// remains locked. Throws `invalid_argument` for a negative number.
  void set_limit(std::int64_t bytes);
};

}  // namespace anyaccel::ops
