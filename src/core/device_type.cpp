#include "core/device_type.h"

namespace anyaccel {

std::optional<c10::DeviceType> find_device_type(const std::string& name) noexcept {
  for (int i = 0; i < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++i) {
    const auto type = static_cast<c10::DeviceType>(i);
    if (!c10::isValidDeviceType(type)) continue;
    try {
      if (c10::DeviceTypeName(type, /*lower_case=*/true) == name) return type;
    } catch (...) {  // no device type has this number
    }
  }
  return std::nullopt;
}

}  // namespace anyaccel
