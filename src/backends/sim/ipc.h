// Device memory that other processes use, as with CUDA's IPC handles.
//
// To share a tensor's memory, a process creates a handle, which is a string, and sends it to
// another process. That process maps the memory, so both see the same bytes. Each shared block has
// a counter in memory that both processes map. It is the number of handles that were sent and not
// yet released. A block that is freed while its counter is not 0 stays allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace anyaccel::backends::sim {

struct Block;

/// Returns a handle for the memory of a tensor's storage, and increments its use count. Does not
/// wait for queued work. Throws if the memory belongs to another process, or if the system cannot
/// share it. Thread-safe, like the functions below.
std::string share(const at::Tensor& tensor);

/// Maps the memory that a handle refers to, and returns it as a tensor of bytes. The use ends when
/// the tensor's storage has been freed and the work that was queued by then has completed. Throws
/// if the handle is malformed, or if the process that created it has exited.
at::Tensor open_shared(const std::string& handle, int device);

/// Ends the use of a handle that was never opened.
void release_shared(const std::string& handle);

/// True if other processes use the block.
bool used_by_others(const Block& block) noexcept;
/// Call this when a shared block is freed.
void end_sharing(Block& block) noexcept;

}  // namespace anyaccel::backends::sim
