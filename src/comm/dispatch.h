// Registers c10d's operators for device types without LibTorch kernels.
#pragma once

#include <c10/core/DeviceType.h>

namespace anyaccel::comm {

/// Registers kernels for the c10d operators that the device type lacks, so that a c10d ProcessGroup
/// accepts its tensors. The kernels call the group's host-tensor backend, so that backend must also
/// support the device. Thread-safe; a second call does nothing.
void register_operators(c10::DeviceType type);

}  // namespace anyaccel::comm
