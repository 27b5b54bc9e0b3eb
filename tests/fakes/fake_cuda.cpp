// A fake libcuda. Its devices are the lines of FAKE_CUDA, in CUDA's order:
//   <32 hex digits> <major> <minor> <SMs>
// It counts its initializations. Like the driver, it rejects all calls before it is initialized.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default"))) int

namespace {

struct Device {
  std::string uuid;
  int major = 0, minor = 0, multiprocessors = 0;
};
std::vector<Device> devices;
int initializations = 0;
void* registered = nullptr;
thread_local void* current_context = nullptr;

enum : int {
  kSuccess = 0,
  kInvalid = 1,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kAlreadyRegistered = 712
};

}  // namespace

FAKE cuInit(unsigned) {
  ++initializations;
  devices.clear();
  const char* text = std::getenv("FAKE_CUDA");
  std::istringstream lines(text != nullptr ? text : "");
  for (Device device;
       lines >> device.uuid >> device.major >> device.minor >> device.multiprocessors;)
    devices.push_back(device);
  return kSuccess;
}
FAKE fake_cuda_initializations() { return initializations; }
FAKE cuDeviceGet(int* device, int index) {
  if (initializations == 0) return kNotInitialized;
  if (index < 0 || static_cast<std::size_t>(index) >= devices.size()) return kInvalidDevice;
  *device = index;
  return kSuccess;
}
FAKE cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "Fake CUDA device", static_cast<std::size_t>(size));
  return kSuccess;
}
FAKE cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  const auto& uuid = devices[static_cast<std::size_t>(device)].uuid;
  for (std::size_t i = 0; i < 16; ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(uuid.substr(2 * i, 2), nullptr, 16));
  return kSuccess;
}
FAKE cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = 1000;
  return kSuccess;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int device) {
  const auto& found = devices[static_cast<std::size_t>(device)];
  switch (attribute) {
    case 16: *value = found.multiprocessors; return kSuccess;
    case 75: *value = found.major; return kSuccess;
    case 76: *value = found.minor; return kSuccess;
    default: return kInvalid;
  }
}
FAKE cuCtxGetCurrent(void** context) {
  *context = current_context;
  return kSuccess;
}
FAKE cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (initializations == 0) return kNotInitialized;
  if (static_cast<std::size_t>(device) >= devices.size()) return kInvalidDevice;
  *flags = 0;
  *active = 1;
  return kSuccess;
}
FAKE cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &devices[static_cast<std::size_t>(device)];
  return kSuccess;
}
FAKE cuCtxSetCurrent(void* context) {
  current_context = context;
  return kSuccess;
}
FAKE cuGetErrorName(int error, const char** name) {
  *name = error == kAlreadyRegistered ? "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
                                      : "CUDA_ERROR_OTHER";
  return kSuccess;
}
FAKE cuMemHostRegister_v2(void* address, std::size_t, unsigned) {
  if (current_context == nullptr) return kInvalidContext;
  if (registered == address) return kAlreadyRegistered;
  registered = address;
  return kSuccess;
}
FAKE cuMemHostUnregister(void* address) {
  if (registered != address) return kInvalid;
  registered = nullptr;
  return kSuccess;
}
