#include "backends/torch/vendor_library.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/torch/python_query.h"
#include "base/dynamic_library.h"
#include "base/trusted_path.h"
#include "core/device_type.h"

namespace anyaccel::sdk {

namespace {

bool torch_has(const Traits& traits) {
  const auto type = find_device_type(traits.device_type);
  return type && c10::impl::hasDeviceGuardImpl(*type);
}

class VendorBackend final : public TorchBackend {
 public:
  VendorBackend(const Traits& traits, const char* python_module)
      : TorchBackend(traits), python_module_(python_module) {}

  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override {
    auto support = TorchBackend::dtype_support(index, dtype);
    if (dtype != c10::ScalarType::BFloat16 || python_module_ == nullptr) return support;
    const auto answer = ask_python(python_module_, "is_bf16_supported");
    if (answer.value) support.computable = support.fast = *answer.value;
    return support;
  }

 private:
  const char* python_module_;
};

}  // namespace

std::string open_vendor_library(const Traits& traits, const VendorLibrary& library) noexcept {
  try {
    if (torch_has(traits)) return {};
    // Vendor libraries read their environment variables when they are loaded.
    for (const auto& setting : traits.start_environment)
      ::setenv(setting.name.c_str(), setting.value.c_str(), /*overwrite=*/0);
    const auto path = env_library(library.variable).value_or(library.file_name);
    std::string reason;
    // Never unload it, because it registers kernels with torch.
    if (!DynamicLibrary::try_open(path, &reason, DynamicLibrary::Unload::never))
      return "this LibTorch has no device type '" + traits.device_type +
             "', and the vendor's library that adds it cannot be loaded: " + reason + "; set " +
             library.variable + " to its path";
    if (!torch_has(traits))
      return path + " was loaded but did not add the device type '" + traits.device_type + "'";
    return {};
  } catch (const std::exception& error) {
    return std::string("the vendor's library cannot be loaded: ") + error.what();
  }
}

Probe probe_vendor_device(const Traits& traits, const VendorLibrary& library) noexcept {
  try {
    if (traits.probe != nullptr) {
      const auto files = traits.probe();
      const auto reason =
          files.device_count > 0 ? open_vendor_library(traits, library) : std::string();
      if (!reason.empty()) return {.device_count = 0, .reason = files.reason + ", but " + reason};
    }
    return probe_torch_device(traits);
  } catch (const std::exception& error) {
    return {.device_count = 0, .reason = std::string("its probe failed: ") + error.what()};
  }
}

void register_vendor_backend(const Traits& traits, const VendorLibrary& library) {
  register_backend({.traits = traits,
                    .create =
                        [traits, library] {
                          return std::make_shared<VendorBackend>(traits, library.python_module);
                        },
                    .probe = [traits, library] { return probe_vendor_device(traits, library); }});
}

}  // namespace anyaccel::sdk
