// The device as seen by torch. In this example, it uses host memory and CPU kernels. For a real
// device, replace guard.cpp and memory.cpp with calls to its runtime, and fallback.cpp with
// kernels.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace hostcard_backend {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
/// Upper bound on device_count(), for arrays with an element for each device.
constexpr std::size_t kMaxDevices = 16;
constexpr std::size_t kDeviceMemory = std::size_t{4} << 30;

/// Renames PrivateUse1 and registers guard, allocator, hooks and kernels with torch. Later calls in
/// the same process are no-ops.
void install_device(const std::string& name);

/// Returns the number of devices. For a real device, query its runtime and cache the result: torch
/// calls this function often, also in forked children.
c10::DeviceIndex device_count() noexcept;
/// Returns this thread's current device.
c10::DeviceIndex current_device();
/// Throws if the device does not exist, like check_device().
void set_current_device(c10::DeviceIndex index);
void check_device(c10::DeviceIndex index);
/// Returns whether this process has ever allocated memory on the device.
bool is_used(c10::DeviceIndex index);

/// Returns the allocator for device memory, which keeps statistics for each device.
c10::DeviceAllocator& allocator();
/// Returns the device's default generator.
const at::Generator& default_generator(c10::DeviceIndex index);
/// Returns the host generator that a device's generator wraps.
at::Generator host_generator(const at::Generator& generator);

/// Returns a CPU tensor that uses the same memory as `tensor`. Kernels may resize it. If the host
/// cannot access your device's memory, map it here, and unmap it in the deleter of the view's
/// storage. If the device is asynchronous, wait for the current stream first.
at::Tensor host_view(const at::Tensor& tensor);
/// Returns views of several tensors. Tensors that share a storage share its view, because a region
/// must not be mapped twice. Tensors of other devices are returned unchanged.
std::vector<at::Tensor> host_views(at::ArrayRef<at::Tensor> tensors);

/// Runs an op with its CPU kernel. A kernel calls it for dtypes and strides that it does not
/// support, through at::native::call_fallback_fn.
void fallback(const c10::OperatorHandle& op, c10::Stack* stack);

void register_guard();
void register_hooks();
void register_fallback();
void register_kernels();
void register_autocast();

}  // namespace hostcard_backend
