// The device that another package has registered with torch.
#pragma once

#include <optional>

#include "anyaccel/sdk/registration.h"

namespace anyaccel {

/// Returns an entry for the generic backend of the device type to which PrivateUse1 was renamed;
/// nullopt if nobody renamed it or torch has no device guard for it. The entry's name is the device
/// type's. The first call loads the library that ANYACCEL_DEVICE_LIBRARY names, if any, and logs a
/// warning if it adds no device. backends/torch implements this function. Never throws.
std::optional<BackendEntry> present_device() noexcept;

}  // namespace anyaccel
