// Timers for DistributedDataParallel's statistics.
#pragma once

#include <c10/core/DeviceType.h>

namespace anyaccel::comm {

/// Registers a timer for a device type unless torch has one. Without it, DistributedDataParallel
/// does not report times for modules on such devices. Thread-safe.
void register_ddp_timer(c10::DeviceType type);

}  // namespace anyaccel::comm
