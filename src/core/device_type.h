// torch's device types by name, without throwing.
#pragma once

#include <c10/core/DeviceType.h>

#include <optional>
#include <string>

namespace anyaccel {

/// The type that torch calls `name` now; nothing when it knows none. A name that PrivateUse1 was
/// renamed to counts. Never registers a name.
std::optional<c10::DeviceType> find_device_type(const std::string& name) noexcept;

}  // namespace anyaccel
