// The device as seen by torch: current device, memory, generators and the fallback. The OpenCL
// calls are declared in runtime.h and launch.h.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <string>

namespace ocl_backend {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

/// Renames PrivateUse1 and registers guard, allocator, hooks and kernels with torch. Later calls in
/// the same process are no-ops.
void install_device(const std::string& name);

/// Returns this thread's current device.
c10::DeviceIndex current_device();
/// Throws if the device does not exist, like check_device().
void set_current_device(c10::DeviceIndex index);
c10::Stream current_stream(c10::DeviceIndex index);
void check_device(c10::DeviceIndex index);
/// Returns whether this process has ever allocated memory on the device.
bool is_used(c10::DeviceIndex index);

/// Returns the allocator for device memory, which keeps statistics for each device.
c10::DeviceAllocator& allocator();
/// Returns the allocator for pinned host memory, which the device reads and writes without waiting
/// for the host.
c10::Allocator& pinned_allocator();
bool is_pinned(const void* address);
/// Returns the device's default generator.
const at::Generator& default_generator(c10::DeviceIndex index);
/// Returns the host generator that a device's generator wraps.
at::Generator host_generator(const at::Generator& generator);

/// Returns a CPU tensor that uses the same memory as `tensor`, which stays mapped to the host while
/// the tensor's storage exists. Waits for the work on the current stream. Kernels may resize it.
at::Tensor host_view(const at::Tensor& tensor, bool write = true);

/// Runs an op with the CPU kernel; the boxed fallback of the device.
void fallback(const c10::OperatorHandle& op, c10::Stack* stack);

void register_guard();
void register_hooks();
void register_fallback();
void register_kernels();
void register_autocast();

}  // namespace ocl_backend
