// Pinned host memory. It is mapped twice: programs have the one view, copies use the other, so that
// the first can be closed while a copy is on its way and an early touch is seen.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include <cstddef>

#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

at::HostAllocator& pinned_allocator() noexcept;

/// True for memory of the allocator above, and of register_pinned().
bool is_pinned(const void* address) noexcept;

/// The view that copies use; the address itself for registered memory. Only for pinned addresses.
void* device_view(void* address) noexcept;

/// Memory of others counts as pinned from now on. Throws when it does so already.
void register_pinned(void* address, std::size_t bytes);
/// Throws when it was not registered.
void unregister_pinned(void* address);

}  // namespace anyaccel::backends::sim
