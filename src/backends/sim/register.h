// The parts that install() registers with torch, in their order.
#pragma once

#include <c10/core/DeviceType.h>

namespace anyaccel::backends::sim {

void register_guard();
/// Throws if torch has no hooks interface for one of its own device types.
void need_hooks(c10::DeviceType type);
void register_hooks();
void register_fallback();
void register_memory_kernels();
void register_copy_kernels();
/// Before the special kernels, which give the rest of torch's ops their names.
void register_layouts();
void register_special_kernels();
void register_rnn_kernels();
void register_autocast();
void register_profiler();
void register_kineto();

}  // namespace anyaccel::backends::sim
