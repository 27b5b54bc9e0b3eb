#include "backends/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>

namespace anyaccel::backends::cuda {

namespace {

using Device = int;  // CUdevice

/// CUuuid
struct Uuid {
  unsigned char bytes[16];
};

// Each entry is taken from cuda.h in CUDA Toolkit 13.0 (documented in "CUDA Driver API", Device
// Management and Memory Management), with the version suffix that the header's macros add. X(name,
// parameters)
#define ANYACCEL_CUDA_SYMBOLS(X)                           \
  X(cuDeviceGet, (Device*, int))                           \
  X(cuDeviceGetName, (char*, int, Device))                 \
  X(cuDeviceGetUuid_v2, (Uuid*, Device))                   \
  X(cuDeviceTotalMem_v2, (std::size_t*, Device))           \
  X(cuDeviceGetAttribute, (int*, int, Device))             \
  X(cuCtxGetCurrent, (void**))                             \
  X(cuCtxSetCurrent, (void*))                              \
  X(cuDevicePrimaryCtxGetState, (Device, unsigned*, int*)) \
  X(cuDevicePrimaryCtxRetain, (void**, Device))            \
  X(cuGetErrorName, (int, const char**))                   \
  X(cuMemHostRegister_v2, (void*, std::size_t, unsigned))  \
  X(cuMemHostUnregister, (void*))

constexpr int kSuccess = 0;               // CUDA_SUCCESS
constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kCapabilityMajor = 75;      // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;      // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr unsigned kPortable = 1;         // CU_MEMHOSTREGISTER_PORTABLE

struct Driver {
#define ANYACCEL_CUDA_POINTER(name, parameters) int(*name) parameters = nullptr;
  ANYACCEL_CUDA_SYMBOLS(ANYACCEL_CUDA_POINTER)
#undef ANYACCEL_CUDA_POINTER
  bool complete = true;

  explicit Driver(void* library) {
#define ANYACCEL_CUDA_FIND(name, parameters)                         \
  name = reinterpret_cast<int(*) parameters>(dlsym(library, #name)); \
  complete = complete && name != nullptr;
    ANYACCEL_CUDA_SYMBOLS(ANYACCEL_CUDA_FIND)
#undef ANYACCEL_CUDA_FIND
  }
};

/// Returns the driver, or null if this process has not loaded it. It is never unloaded.
const Driver* driver() noexcept {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  static const Driver loaded(library);
  return loaded.complete ? &loaded : nullptr;
}

std::string dashed(const Uuid& uuid) {
  std::string text;
  for (int i = 0; i < 16; ++i) {
    std::array<char, 4> byte{};
    std::snprintf(byte.data(), byte.size(), "%02x", static_cast<unsigned>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte.data();
  }
  return text;
}

std::string reason(const Driver& driver, int result) {
  if (result == kSuccess) return {};
  const char* name = nullptr;
  driver.cuGetErrorName(result, &name);
  return name != nullptr ? name : "CUDA driver error " + std::to_string(result);
}

constexpr const char* kNotLoaded = "the CUDA driver is not loaded in this process";

/// Makes the device's primary context, which torch uses, current on this thread, unless the thread
/// already has a context. Never releases it, because torch keeps it for the lifetime of the
/// process.
int use_context(const Driver& driver, int index) {
  void* context = nullptr;
  if (driver.cuCtxGetCurrent(&context) == kSuccess && context != nullptr) return kSuccess;
  Device device = 0;
  if (const int result = driver.cuDeviceGet(&device, index); result != kSuccess) return result;
  if (const int result = driver.cuDevicePrimaryCtxRetain(&context, device); result != kSuccess)
    return result;
  return driver.cuCtxSetCurrent(context);
}

}  // namespace

std::optional<DriverProperties> driver_properties(int index) noexcept {
  const auto* cuda = driver();
  Device device = 0;
  // CUDA_ERROR_NOT_INITIALIZED before torch's first use of CUDA
  if (cuda == nullptr || cuda->cuDeviceGet(&device, index) != kSuccess) return std::nullopt;
  DriverProperties properties;
  std::array<char, 256> name{};
  Uuid uuid{};
  if (cuda->cuDeviceGetName(name.data(), name.size(), device) == kSuccess)
    properties.name = name.data();
  if (cuda->cuDeviceGetUuid_v2(&uuid, device) == kSuccess) properties.uuid = dashed(uuid);
  cuda->cuDeviceTotalMem_v2(&properties.total_memory, device);
  cuda->cuDeviceGetAttribute(&properties.multi_processor_count, kMultiprocessorCount, device);
  cuda->cuDeviceGetAttribute(&properties.capability.first, kCapabilityMajor, device);
  cuda->cuDeviceGetAttribute(&properties.capability.second, kCapabilityMinor, device);
  return properties;
}

std::optional<bool> driver_runs() noexcept {
  const auto* cuda = driver();
  if (cuda == nullptr) return std::nullopt;
  unsigned flags = 0;
  int active = 0;
  // The search ends at the first device that does not exist. Before cuInit(), that is device 0.
  for (Device device = 0; cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) == kSuccess;
       ++device)
    if (active != 0) return true;
  return false;
}

std::string driver_register_host(void* address, std::size_t bytes, int index) noexcept {
  const auto* cuda = driver();
  if (cuda == nullptr) return kNotLoaded;
  if (const int result = use_context(*cuda, index); result != kSuccess)
    return reason(*cuda, result);
  return reason(*cuda, cuda->cuMemHostRegister_v2(address, bytes, kPortable));
}

std::string driver_unregister_host(void* address) noexcept {
  const auto* cuda = driver();
  if (cuda == nullptr) return kNotLoaded;
  return reason(*cuda, cuda->cuMemHostUnregister(address));
}

}  // namespace anyaccel::backends::cuda
