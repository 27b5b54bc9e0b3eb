// Functions shared by the source files of the generic backend.
#pragma once

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <memory>

#include "anyaccel/sdk/backend.h"

// For features that depend on the LibTorch version. Using a missing feature must fail with an error
// that names it; never compile it out silently.
#define ANYACCEL_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||           \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace anyaccel::torch_parts {

inline c10::impl::VirtualGuardImpl guard(c10::DeviceType type) {
  return c10::impl::VirtualGuardImpl(type);
}

/// Returns the allocator of a device type, or null if that allocator does not keep statistics. In
/// that case, torch's own getter fails an assertion.
inline c10::DeviceAllocator* device_allocator(c10::DeviceType type) {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(type));
}

std::shared_ptr<sdk::EventImpl> make_event(c10::DeviceType type, bool enable_timing);

/// Returns null if torch does not provide graphs for the type.
std::shared_ptr<sdk::GraphImpl> make_graph(c10::DeviceType type);

/// Returns true if a graph from make_graph() is capturing this thread's current stream.
/// Thread-safe.
bool is_capturing(c10::DeviceType type);

/// Calls the initialization function of the vendor's library for `type` with a device index, if
/// there is one that has not been called yet. Thread-safe.
void initialize_vendor_library(c10::DeviceType type, c10::DeviceIndex index);

/// Returns the stream that is current on a thread that has not selected one. Starts a thread for
/// the first call per device. Thread-safe.
c10::Stream initial_stream(c10::Device device);

/// Returns the dtypes that a device can store, one bit per ScalarType. All bits are set if its
/// guard does not report them. Thread-safe.
std::uint64_t storable_dtypes(c10::Device device);

}  // namespace anyaccel::torch_parts
