#include "backends/torch/vendor_library.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "anyaccel/error.h"
#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/torch/parts.h"
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

using Initialize = void(c10::DeviceIndex);

/// The initialization function of the library that this process loaded. At most one is loaded,
/// because PrivateUse1 can be renamed only once.
struct Initializer {
  std::atomic<Initialize*> function{nullptr};
  std::once_flag once;
};

Initializer& initializer() {
  static auto* instance =
      new Initializer;  // leaked, because threads may outlive static destruction
  return *instance;
}

class VendorBackend final : public TorchBackend {
 public:
  VendorBackend(const Traits& traits, const VendorLibrary& library)
      : TorchBackend(traits), library_(library) {}

  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override {
    auto support = TorchBackend::dtype_support(index, dtype);
    if (dtype != c10::ScalarType::BFloat16 || library_.python_module == nullptr) return support;
    const auto answer = ask_python(library_.python_module, "is_bf16_supported");
    if (answer.value) support.computable = support.fast = *answer.value;
    return support;
  }

  Stream default_stream(DeviceIndex index) const override {
    if (library_.default_stream) return TorchBackend::default_stream(index);
    start();
    return {torch_parts::initial_stream(torch_device(index)), index};
  }

  // None of these devices has streams with a low priority. Huawei's device guard creates a stream
  // with a high priority if the priority is not 0.
  Stream new_stream(DeviceIndex index, int priority) override {
    return TorchBackend::new_stream(index, std::min(priority, 0));
  }

  MemoryInfo memory_info(DeviceIndex index) const override {
    try {
      return TorchBackend::memory_info(index);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported || library_.python_module == nullptr) throw;
      const auto answer = ask_python_pair(library_.python_module, "mem_get_info", index);
      if (!answer.value) throw;
      return {.free = answer.value->first, .total = answer.value->second};
    }
  }

  // These vendors' device guards do not report captures, such as those of torch.npu.graph().
  bool is_current_stream_capturing() const override {
    if (TorchBackend::is_current_stream_capturing()) return true;
    if (library_.python_module == nullptr || !is_initialized()) return false;
    return ask_python(library_.python_module, "is_current_stream_capturing").value.value_or(false);
  }

 private:
  VendorLibrary library_;
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
    const auto opened = DynamicLibrary::try_open(path, &reason, DynamicLibrary::Unload::never);
    if (!opened)
      return "this LibTorch has no device type '" + traits.device_type +
             "', and the vendor's library that adds it cannot be loaded: " + reason + "; set " +
             library.variable + " to its path";
    if (!torch_has(traits))
      return path + " was loaded but did not add the device type '" + traits.device_type + "'";
    if (library.initialize != nullptr)
      initializer().function = opened.find<Initialize*>(library.initialize);
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
  register_backend(
      {.traits = traits,
       .create = [traits, library] { return std::make_shared<VendorBackend>(traits, library); },
       .probe = [traits, library] { return probe_vendor_device(traits, library); }});
}

}  // namespace anyaccel::sdk

namespace anyaccel::torch_parts {

void initialize_vendor_library(c10::DeviceType type, c10::DeviceIndex index) {
  if (type != c10::DeviceType::PrivateUse1) return;
  auto& initializer = sdk::initializer();
  if (auto* function = initializer.function.load(std::memory_order_acquire))
    std::call_once(initializer.once, function, index);
}

}  // namespace anyaccel::torch_parts
