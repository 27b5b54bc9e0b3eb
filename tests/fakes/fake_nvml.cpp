// A fake libnvidia-ml. Its devices are the lines of FAKE_NVML, in PCI order:
//   gpu <uuid> <name> <major> <minor> <free> <total>
//     a device; "gpu -" is a device that may not be opened
//   mig <uuid> <gpu instance> <compute instance> <free> <total>
//     a MIG instance of the preceding device, which is then in MIG mode
//   fail <code>
//     the result of nvmlInit_v2
// Queries for the memory of a device in MIG mode are denied, as in a container. FAKE_NVML is read
// at the first initialization.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "backends/cuda/nvml_symbols.h"

#define FAKE extern "C" __attribute__((visibility("default"))) int

namespace {

using anyaccel::backends::cuda::NvmlMemory;

struct Device {
  std::string uuid, name;
  int major = 0, minor = 0, gpu_instance = 0, compute_instance = 0;
  unsigned long long free = 0, total = 0;
  std::vector<Device> instances;
};

struct Machine {
  int failure = 0;
  int starts = 0;
  pid_t started_in = -1;  // a forked child must initialize again
  std::vector<Device> devices;
};

Machine& machine() {
  static Machine instance;
  return instance;
}

void read() {
  auto& now = machine();
  now.failure = 0;
  now.devices.clear();
  const char* text = std::getenv("FAKE_NVML");
  std::istringstream lines(text != nullptr ? text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    Device device;
    if (kind == "gpu") {
      words >> device.uuid >> device.name >> device.major >> device.minor >> device.free >>
          device.total;
      now.devices.push_back(device);
    } else if (kind == "mig") {
      words >> device.uuid >> device.gpu_instance >> device.compute_instance >> device.free >>
          device.total;
      now.devices.back().instances.push_back(device);
    } else if (kind == "fail") {
      words >> now.failure;
    }
  }
}

enum : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalid = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kTooSmall = 7
};

Device& at(void* handle) { return *static_cast<Device*>(handle); }

int copy(const std::string& text, char* out, unsigned size) {
  if (text.size() >= size) return kTooSmall;
  std::strcpy(out, text.c_str());
  return kSuccess;
}

}  // namespace

FAKE nvmlInit_v2() {
  if (machine().starts++ == 0) read();
  machine().started_in = getpid();
  return machine().failure;
}
FAKE fake_nvml_starts() { return machine().starts; }
FAKE nvmlDeviceGetCount_v2(unsigned* count) {
  if (machine().started_in != getpid()) return kUninitialized;
  *count = static_cast<unsigned>(machine().devices.size());
  return kSuccess;
}
#ifndef FAKE_NVML_WITHOUT_HANDLES
FAKE nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= machine().devices.size()) return kInvalid;
  if (machine().devices[index].uuid == "-") return kNoPermission;
  *handle = &machine().devices[index];
  return kSuccess;
}
#endif
FAKE nvmlSystemGetDriverVersion(char* out, unsigned size) { return copy("580.65.06", out, size); }
FAKE nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (machine().started_in != getpid()) return kUninitialized;
  for (auto& device : machine().devices) {
    if (device.uuid == uuid) return *handle = &device, kSuccess;
    for (auto& instance : device.instances)
      if (instance.uuid == uuid) return *handle = &instance, kSuccess;
  }
  return kNotFound;
}
FAKE nvmlDeviceGetUUID(void* handle, char* out, unsigned size) {
  return copy(at(handle).uuid, out, size);
}
FAKE nvmlDeviceGetName(void* handle, char* out, unsigned size) {
  return copy(at(handle).name, out, size);
}
FAKE nvmlDeviceGetMemoryInfo(void* handle, NvmlMemory* memory) {
  const auto& device = at(handle);
  if (!device.instances.empty()) return kNoPermission;
  *memory = {.total = device.total, .free = device.free, .used = device.total - device.free};
  return kSuccess;
}
FAKE nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = at(handle).major;
  *minor = at(handle).minor;
  return kSuccess;
}
#ifndef FAKE_NVML_WITHOUT_MIG
FAKE nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  *current = *pending = at(handle).instances.empty() ? 0 : 1;
  return kSuccess;
}
FAKE nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return kSuccess;
}
FAKE nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned index, void** instance) {
  if (index >= at(handle).instances.size()) return kNotFound;
  *instance = &at(handle).instances[index];
  return kSuccess;
}
FAKE nvmlDeviceGetGpuInstanceId(void* handle, unsigned* id) {
  *id = static_cast<unsigned>(at(handle).gpu_instance);
  return kSuccess;
}
FAKE nvmlDeviceGetComputeInstanceId(void* handle, unsigned* id) {
  *id = static_cast<unsigned>(at(handle).compute_instance);
  return kSuccess;
}
#endif
