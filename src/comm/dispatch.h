// c10d's operators for device types that LibTorch has no kernels of them for.
#pragma once

#include <c10/core/DeviceType.h>

namespace anyaccel::comm {

/// Gives the type kernels of those c10d operators that it lacks, so that a ProcessGroup takes its
/// tensors. They call the group's backend for host tensors, which must be the one for the device's
/// too. Thread-safe; a second call does nothing.
void register_operators(c10::DeviceType type);

}  // namespace anyaccel::comm
