// Finds torch's device types by name. Never throws.
#pragma once

#include <c10/core/DeviceType.h>

#include <optional>
#include <string>

namespace anyaccel {

/// Returns the device type that torch currently calls `name`, or nullopt if there is none.
/// Recognizes the name to which PrivateUse1 was renamed. Never registers a name.
std::optional<c10::DeviceType> find_device_type(const std::string& name) noexcept;

}  // namespace anyaccel
