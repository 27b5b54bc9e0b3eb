#include "anyaccel/sdk/torch_backend.h"
#include "backends/torch/parts.h"
#include "core/device_type.h"

namespace anyaccel::sdk {

namespace {

std::string counted(int count, const std::string& source) {
  return std::to_string(count) + (count == 1 ? " device" : " devices") + " by " + source;
}

Probe probe(const Traits& traits) {
  Probe hardware;
  if (traits.probe != nullptr) hardware = traits.probe();
  const auto type = find_device_type(traits.device_type);
  const bool drivable = type && c10::impl::hasDeviceGuardImpl(*type);
  if (!drivable) {
    const std::string why =
        "the LibTorch loaded in this process (" TORCH_VERSION ") does not support it";
    if (hardware.device_count > 0)
      return {0, counted(hardware.device_count, hardware.reason) + ", but " + why};
    return {0, hardware.reason.empty() ? why : hardware.reason + "; " + why};
  }
  // Use the count from the hardware probe, because counting with torch may initialize the driver,
  // after which fork() is unsafe.
  if (hardware.device_count > 0)
    return {hardware.device_count, counted(hardware.device_count, hardware.reason)};
  if (const int count = c10::impl::VirtualGuardImpl(*type).deviceCount(); count > 0)
    return {count, counted(count, "torch's device guard")};
  return {0, hardware.reason.empty() ? "torch supports it but finds no device" : hardware.reason};
}

}  // namespace

Probe probe_torch_device(const Traits& traits) noexcept {
  try {
    return probe(traits);
  } catch (const std::exception& error) {
    return {0, std::string("probe failed: ") + error.what()};
  } catch (...) {
    return {0, "probe failed"};
  }
}

}  // namespace anyaccel::sdk
