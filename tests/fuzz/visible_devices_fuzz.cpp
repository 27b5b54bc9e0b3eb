// Any value of CUDA_VISIBLE_DEVICES selects existing devices, each at most once. A MIG instance is
// never selected together with other devices.
// sources: backends/cuda/visible_devices.cpp
#include "backends/cuda/visible_devices.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel::backends::cuda;
  static const std::vector<PhysicalDevice> machine{
      {.uuid = "GPU-aaaa0000-1111",
       .mig = true,
       .instances = {{"MIG-1111-aa", 1, 0}, {"MIG-1111-bb", 2, 0}}},
      {.uuid = "GPU-bbbb0000-2222", .mig = false, .instances = {}},
      {.uuid = "GPU-bbbb1111-3333", .mig = false, .instances = {}}};
  const auto devices =
      visible_devices(std::string_view(reinterpret_cast<const char*>(data), size), machine);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& device = devices[i];
    if (device.physical < 0 || static_cast<std::size_t>(device.physical) >= machine.size())
      std::abort();
    if (device.instance >= 0 && devices.size() != 1) std::abort();
    for (std::size_t k = 0; k < i; ++k)
      if (devices[k] == device) std::abort();
  }
  return 0;
}
