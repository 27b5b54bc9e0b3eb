#include "core/present_device.h"

#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cctype>
#include <memory>
#include <string>

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel {

namespace {

/// Below the backends that know their device, above the host.
constexpr int kPriority = 55;

sdk::Traits traits_of(const std::string& name) {
  std::string upper = name;
  for (char& letter : upper)
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return {.name = name,
          .class_name = upper + "_Accelerator",
          .device_type = name,
          .communication_backend = "staged",
          .compile_backend = "aot_eager",
          .compile_backends = {"inductor", "aot_eager", "eager"},
          .priority = kPriority,
          .op_builder_dir = "deepspeed.ops.op_builder.cpu"};
}

}  // namespace

std::optional<BackendEntry> present_device() noexcept {
  try {
    if (!c10::is_privateuse1_backend_registered() ||
        !c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1))
      return std::nullopt;
    const auto traits = traits_of(c10::get_privateuse1_backend(/*lower_case=*/true));
    return BackendEntry{
        .traits = traits,
        .create = [traits] { return std::make_shared<sdk::TorchBackend>(traits); },
        .probe =
            [traits] {
              auto probe = sdk::probe_torch_device(traits);
              probe.reason +=
                  "; driven by the generic backend, because no backend is registered for this "
                  "device type";
              return probe;
            }};
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace anyaccel
