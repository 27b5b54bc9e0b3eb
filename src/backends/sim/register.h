// Functions that install() calls, in this order, to register the parts of the simulator with torch.
#pragma once

#include <c10/core/DeviceType.h>

namespace anyaccel::backends::sim {

void register_guard();
/// Throws if `type` is one of torch's own device types and torch has no hooks interface for it.
void need_hooks(c10::DeviceType type);
void register_hooks();
void register_fallback();
void register_memory_kernels();
void register_copy_kernels();
/// Must precede register_special_kernels(), which registers torch's remaining ops by name.
void register_layouts();
void register_special_kernels();
void register_rnn_kernels();
void register_autocast();
void register_sleep();
/// Registers the functions through which Python shares memory with other processes.
void register_ipc();
void register_profiler();
void register_kineto();

}  // namespace anyaccel::backends::sim
