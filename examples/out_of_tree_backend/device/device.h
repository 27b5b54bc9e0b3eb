// The device as torch sees it. Here it is host memory and its kernels are the CPU's; a real device
// replaces, file by file, guard.cpp and memory.cpp by its runtime and fallback.cpp by its kernels.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <string>

namespace hostcard_backend {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDeviceCount = 2;
constexpr std::size_t kDeviceMemory = std::size_t{4} << 30;

/// Gives PrivateUse1 its name and registers guard, allocator, hooks and kernels with torch. Once a
/// process; later calls change nothing.
void install_device(const std::string& name);

/// This thread's device.
c10::DeviceIndex current_device();
/// Throws where there is no such device.
void set_current_device(c10::DeviceIndex index);
void check_device(c10::DeviceIndex index);
/// Whether memory was ever allocated on the device in this process.
bool is_used(c10::DeviceIndex index);

/// Device memory, with statistics for each device.
c10::DeviceAllocator& allocator();
/// The device's default generator, and the host generator that it draws from.
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator host_generator(const at::Generator& generator);

/// The same memory as a tensor of the CPU, which may be resized; for kernels.
at::Tensor host_view(const at::Tensor& tensor);

void register_guard();
void register_hooks();
void register_fallback();
void register_kernels();
void register_autocast();

}  // namespace hostcard_backend
