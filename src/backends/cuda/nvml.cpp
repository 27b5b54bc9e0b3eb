#include "backends/cuda/nvml.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "anyaccel/error.h"
#include "backends/cuda/traits.h"
#include "base/env.h"
#include "base/trusted_path.h"

namespace anyaccel::backends::cuda {

namespace {

constexpr unsigned kMigEnabled = 1;  // NVML_DEVICE_MIG_ENABLE

/// Describes an nvmlReturn_t. See "Error reporting" and "Enumerations" in the NVML API reference.
std::string result_name(int result) {
  switch (result) {
    case 1: return "NVML was not initialized";
    case 2: return "invalid argument";
    case 3: return "not supported";
    case kNvmlNoPermission: return "no permission";
    case 6: return "not found";
    case 9: return "the NVIDIA driver is not loaded";
    case 13: return "this version of NVML lacks the function";
    case 15: return "the GPU is lost";
    case 17: return "the operating system blocks the device";
    case 18: return "driver and library versions differ";
    default: return "NVML error " + std::to_string(result);
  }
}

[[noreturn]] void fail(const char* function, const std::string& reason) {
  throw Error(ErrorCode::unavailable, function, {.what = reason});
}

/// Calls a function in the table. If the function is missing or fails, throws an error that names
/// it.
template <typename Function, typename... Arguments>
void call(const char* name, Function function, Arguments... arguments) {
  if (function == nullptr) fail(name, "the driver's NVML has no such function");
  if (const int result = function(arguments...); result != kNvmlSuccess)
    fail(name, result_name(result));
}

#define ANYACCEL_NVML_CALL(function, ...) call(#function, nvml_.function, __VA_ARGS__)

std::optional<std::string_view> visible_value() {
  const char* value =
      std::getenv("CUDA_VISIBLE_DEVICES");  // not env(), because an empty value hides all devices
  return value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
}

}  // namespace

const Nvml& Nvml::instance() noexcept {
  // Never destroyed, because threads may use it while the program exits.
  static const Nvml* nvml = new Nvml;
  return *nvml;
}

Nvml::Nvml() noexcept {
  try {
    open(env_library("ANYACCEL_NVML_LIBRARY").value_or("libnvidia-ml.so.1"));
  } catch (const std::exception& error) {
    reason_ = error.what();
  }
}

void Nvml::open(const std::string& library) {
  library_ = DynamicLibrary::try_open(library, &reason_);
  if (!library_) {
    // Keep only the loader's message, which begins with the library's name.
    const auto words = reason_.rfind(library + ": ");
    reason_ =
        "no usable NVML found: " + (words == std::string::npos ? reason_ : reason_.substr(words));
    return;
  }
#define ANYACCEL_NVML_FIND(name, needed, parameters)      \
  nvml_.name = library_.find<int(*) parameters>(#name);   \
  if (needed && nvml_.name == nullptr && reason_.empty()) \
    reason_ = library +                                   \
              " is not a usable NVML: it has "            \
              "no " #name;
  ANYACCEL_NVML_SYMBOLS(ANYACCEL_NVML_FIND)
#undef ANYACCEL_NVML_FIND
  if (!reason_.empty()) return;
  if (const int result = nvml_.nvmlInit_v2(); result != kNvmlSuccess)
    reason_ = "NVML cannot be initialized: " + result_name(result);
  started_in_ = getpid();
}

void Nvml::start() const {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!reason_.empty()) fail("NVML", reason_);
  if (started_in_ == getpid()) return;
  // After fork(), the child shares the driver's open files with the parent. NVML keeps an
  // initialization count, so initializing it again is safe.
  if (const int result = nvml_.nvmlInit_v2(); result != kNvmlSuccess)
    fail("nvmlInit_v2", result_name(result));
  started_in_ = getpid();
}

std::string Nvml::text(int (*query)(NvmlHandle, char*, unsigned), NvmlHandle handle) const {
  std::array<char, 96> buffer{};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, the largest size
  if (query == nullptr || query(handle, buffer.data(), buffer.size()) != kNvmlSuccess) return {};
  return buffer.data();
}

std::vector<MigDevice> Nvml::instances(NvmlHandle device) const {
  std::vector<MigDevice> found;
  unsigned most = 0;
  if (nvml_.nvmlDeviceGetMaxMigDeviceCount == nullptr ||
      nvml_.nvmlDeviceGetMigDeviceHandleByIndex == nullptr ||
      nvml_.nvmlDeviceGetMaxMigDeviceCount(device, &most) != kNvmlSuccess)
    return found;
  for (unsigned i = 0; i < most; ++i) {
    NvmlHandle instance = nullptr;
    if (nvml_.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &instance) != kNvmlSuccess)
      continue;  // no MIG instance at this index
    unsigned gpu_instance = 0, compute_instance = 0;
    const bool numbered =
        nvml_.nvmlDeviceGetGpuInstanceId != nullptr &&
        nvml_.nvmlDeviceGetComputeInstanceId != nullptr &&
        nvml_.nvmlDeviceGetGpuInstanceId(instance, &gpu_instance) == kNvmlSuccess &&
        nvml_.nvmlDeviceGetComputeInstanceId(instance, &compute_instance) == kNvmlSuccess;
    found.push_back({.uuid = text(nvml_.nvmlDeviceGetUUID, instance),
                     .gpu_instance = numbered ? static_cast<int>(gpu_instance) : -1,
                     .compute_instance = numbered ? static_cast<int>(compute_instance) : -1});
  }
  return found;
}

std::vector<PhysicalDevice> Nvml::machine() const {
  start();
  unsigned count = 0;
  ANYACCEL_NVML_CALL(nvmlDeviceGetCount_v2, &count);
  std::vector<PhysicalDevice> devices;
  for (unsigned i = 0; i < count; ++i) {
    NvmlHandle device = nullptr;
    // A device that the container cannot open still has an index.
    if (nvml_.nvmlDeviceGetHandleByIndex_v2(i, &device) != kNvmlSuccess) {
      devices.push_back({.uuid = {}, .mig = false});
      continue;
    }
    unsigned current = 0, pending = 0;
    const bool mig = nvml_.nvmlDeviceGetMigMode != nullptr &&
                     nvml_.nvmlDeviceGetMigMode(device, &current, &pending) == kNvmlSuccess &&
                     current == kMigEnabled;
    devices.push_back({.uuid = text(nvml_.nvmlDeviceGetUUID, device), .mig = mig});
    if (mig) devices.back().instances = instances(device);
  }
  return devices;
}

std::vector<std::string> Nvml::visible_uuids() const {
  const auto devices = machine();
  std::vector<std::string> uuids;
  for (const auto& visible : visible_devices(visible_value(), devices)) {
    const auto& device = devices[static_cast<std::size_t>(visible.physical)];
    uuids.push_back(visible.instance < 0
                        ? device.uuid
                        : device.instances[static_cast<std::size_t>(visible.instance)].uuid);
  }
  return uuids;
}

bool Nvml::order_is_certain() const {
  if (env("CUDA_DEVICE_ORDER") == "PCI_BUS_ID") return true;
  const auto value = visible_value();
  if (value && (value->find("GPU-") != value->npos || value->find("MIG-") != value->npos))
    return true;
  const auto devices = machine();
  std::string first;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto name = devices[i].uuid.empty() ? std::string() : properties(devices[i].uuid).name;
    if (i == 0) first = name;
    if (name != first) return false;
  }
  return true;
}

NvmlHandle Nvml::handle(const std::string& uuid) const {
  start();
  NvmlHandle device = nullptr;
  ANYACCEL_NVML_CALL(nvmlDeviceGetHandleByUUID, uuid.c_str(), &device);
  return device;
}

NvmlMemory Nvml::memory(const std::string& uuid) const {
  NvmlMemory memory;
  ANYACCEL_NVML_CALL(nvmlDeviceGetMemoryInfo, handle(uuid), &memory);
  return memory;
}

NvmlProperties Nvml::properties(const std::string& uuid) const {
  const auto device = handle(uuid);
  NvmlProperties properties{.name = text(nvml_.nvmlDeviceGetName, device), .uuid = uuid};
  std::array<char, 80> version{};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  if (nvml_.nvmlSystemGetDriverVersion != nullptr &&
      nvml_.nvmlSystemGetDriverVersion(version.data(), version.size()) == kNvmlSuccess)
    properties.driver_version = version.data();
  if (unsigned node = 0; nvml_.nvmlDeviceGetNumaNodeId != nullptr &&
                         nvml_.nvmlDeviceGetNumaNodeId(device, &node) == kNvmlSuccess)
    properties.numa_node = static_cast<int>(node);
  auto& [major, minor] = properties.capability;
  if (nvml_.nvmlDeviceGetCudaComputeCapability == nullptr ||
      nvml_.nvmlDeviceGetCudaComputeCapability(device, &major, &minor) != kNvmlSuccess)
    properties.capability = {-1, -1};
  return properties;
}

sdk::Probe probe_devices() noexcept {
  try {
    const auto& nvml = Nvml::instance();
    if (!nvml.reason().empty()) return {.device_count = 0, .reason = nvml.reason()};
    const auto present = nvml.machine().size();
    const auto count = static_cast<int>(nvml.visible_uuids().size());
    const auto value = visible_value();
    if (!value) {
      if (count == 0) return {.device_count = 0, .reason = "NVML reports no usable device"};
      return {.device_count = count, .reason = "NVML"};
    }
    return {.device_count = count,
            .reason = "NVML; CUDA_VISIBLE_DEVICES=" + std::string(*value) + " selects " +
                      std::to_string(count) + " of " + std::to_string(present)};
  } catch (const std::exception& error) {
    return {.device_count = 0, .reason = error.what()};
  }
}

}  // namespace anyaccel::backends::cuda
