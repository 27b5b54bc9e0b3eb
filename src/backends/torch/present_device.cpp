#include "core/present_device.h"

#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cctype>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "anyaccel/sdk/torch_backend.h"
#include "base/dynamic_library.h"
#include "base/env.h"
#include "base/log.h"
#include "base/trusted_path.h"
#include "base/untrusted_text.h"

namespace anyaccel {

namespace {

/// Below the backends that know their device, above the host.
constexpr int kPriority = 55;

constexpr const char* kLibrary = "ANYACCEL_DEVICE_LIBRARY";
constexpr const char* kName = "ANYACCEL_DEVICE_NAME";

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

bool torch_has_a_device() {
  return c10::is_privateuse1_backend_registered() &&
         c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1);
}

/// Loads the library that ANYACCEL_DEVICE_LIBRARY names, so that C++ programs find devices that
/// Python programs get by importing a package. Returns the reason if that fails.
std::string load_device_library() {
  const auto path = env_library(kLibrary);
  if (!path || torch_has_a_device()) return {};
  std::string reason;
  // Never unload it, because it registers kernels with torch.
  if (!DynamicLibrary::try_open(*path, &reason, DynamicLibrary::Unload::never)) return reason;
  const auto name = env(kName);
  if (name && !c10::is_privateuse1_backend_registered()) c10::register_privateuse1_backend(*name);
  if (torch_has_a_device()) return {};
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1))
    return quoted_text(*path) + " does not register a device with torch";
  return quoted_text(*path) + " does not name its device type; set " + kName;
}

void load_device_library_once() {
  static std::once_flag once;
  static thread_local bool loading = false;  // the library's initialization queries the registry
  if (std::exchange(loading, true)) return;
  std::call_once(once, [] {
    std::string reason;
    try {
      reason = load_device_library();
    } catch (const std::exception& error) {
      reason = error.what();
    }
    if (!reason.empty())
      log(LogLevel::warning, std::string(kLibrary) + " adds no device: " + reason);
  });
  loading = false;
}

}  // namespace

std::optional<BackendEntry> present_device() noexcept {
  try {
    load_device_library_once();
    if (!torch_has_a_device()) return std::nullopt;
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
