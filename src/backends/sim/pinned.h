// Pinned host memory. It is mapped twice: one view for programs, and one for copies. The program's
// view can be protected while a copy is in flight, so that an early access is detected.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include <cstddef>

#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

at::HostAllocator& pinned_allocator() noexcept;

/// True for memory from pinned_allocator() and for memory that was registered with
/// register_pinned().
bool is_pinned(const void* address) noexcept;

/// Returns the address in the view that copies use, or `address` itself for memory from other
/// allocators.
void* device_view(void* address) noexcept;

/// Maps memory from pinned_allocator() once more, for programs, and returns the new address; null
/// if the memory belongs to another allocator or no address space is left.
void* map_again(void* address, std::size_t bytes) noexcept;
/// Unmaps an address range that map_again() returned.
void unmap_again(void* address, std::size_t bytes) noexcept;

/// Registers memory from other allocators as pinned. Throws if it is already pinned.
void register_pinned(void* address, std::size_t bytes);
/// Throws if the memory was not registered.
void unregister_pinned(void* address);

}  // namespace anyaccel::backends::sim
