// The device on which models compute.
#pragma once

#include <c10/core/Device.h>

namespace anyaccel::llm {

/// Returns the accelerator's current device after initializing it. Some device types that other
/// packages add to torch require that before the first tensor; in C++, torch does not do it.
c10::Device compute_device();

}  // namespace anyaccel::llm
