// Addresses of device memory. For each device, programs see an address range that cannot be
// accessed. Kernels access the memory through a second range of the same size, at a fixed offset,
// which only kernels add. The memory is an unnamed file, which other processes can map (see ipc.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace anyaccel::backends::sim {

struct MemoryMap {
  char* base = nullptr;   ///< first address of device 0
  std::size_t slice = 0;  ///< size of each device's range
  int devices = 0;
  std::ptrdiff_t delta = 0;  ///< kernel address minus device address
  int file = -1;             ///< device address minus `base` is the offset in this file

  bool contains(const void* address) const noexcept {
    return static_cast<std::size_t>(static_cast<const char*>(address) - base) <
           slice * static_cast<std::size_t>(devices);
  }
  int device_of(const void* address) const noexcept {
    return contains(address)
               ? static_cast<int>(
                     static_cast<std::size_t>(static_cast<const char*>(address) - base) / slice)
               : -1;
  }
  char* device_base(int device) const noexcept {
    return base + slice * static_cast<std::size_t>(device);
  }
  /// The address that kernels use; null for null.
  void* alias(const void* address) const noexcept {
    return address == nullptr ? nullptr
                              : const_cast<char*>(static_cast<const char*>(address)) + delta;
  }
};

/// Size of the part of the file that follows the memory of all devices. Only ipc.cpp uses it.
constexpr std::size_t kIpcBytes = 1 << 20;

/// Filled once by reserve_memory(), before any device memory exists.
inline MemoryMap memory_map;

/// Reserves address space for `devices` slices of `slice` bytes, without allocating memory. Throws
/// `unavailable` with the system's reason. A forked child gets its own, zeroed memory at the same
/// addresses.
void reserve_memory(int devices, std::size_t slice);

/// Returns the memory at the device addresses [address, address + bytes) to the system. The range
/// then reads as zero.
void release_pages(void* address, std::size_t bytes) noexcept;

/// Maps `bytes` bytes of another process's file, starting at `offset`, at a device address.
/// `address` and `offset` must be multiples of the page size. Throws with the system's reason.
void map_foreign(void* address, std::size_t bytes, int file, std::size_t offset);
/// Undoes map_foreign(): maps this process's own memory there again.
void unmap_foreign(void* address, std::size_t bytes) noexcept;

}  // namespace anyaccel::backends::sim
