// The device on which models compute.
#pragma once

#include <c10/core/Device.h>

namespace anyaccel::llm {

/// Initializes and returns the accelerator's current device. Some device types that other packages
/// add to torch must be initialized before the first tensor is created, which torch does not do in
/// C++.
c10::Device compute_device();

}  // namespace anyaccel::llm
