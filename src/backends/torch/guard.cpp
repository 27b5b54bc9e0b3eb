// Substitutes for functions that a device guard may leave out.
#include <atomic>
#include <future>
#include <map>
#include <mutex>

#include "backends/torch/parts.h"
#include "core/guard_functions.h"

namespace anyaccel::torch_parts {

c10::Stream initial_stream(c10::Device device) {
  static auto* streams = new std::map<std::pair<c10::DeviceType, int>, c10::Stream>;
  static auto* mutex = new std::mutex;  // leaked, because threads may outlive static destruction
  const std::lock_guard lock(*mutex);
  const std::pair key{device.type(), static_cast<int>(device.index())};
  const auto found = streams->find(key);
  if (found != streams->end()) return found->second;
  const auto stream =
      std::async(std::launch::async, [&] { return guard(device.type()).getStream(device); }).get();
  return streams->emplace(key, stream).first->second;
}

std::uint64_t storable_dtypes(c10::Device device) {
  constexpr auto kAll = ~std::uint64_t{0};
  static std::atomic<std::uint64_t> silent{0};  // device types whose guards do not report dtypes
  const auto type = std::uint64_t{1} << static_cast<unsigned>(device.type());
  if ((silent.load(std::memory_order_relaxed) & type) != 0) return kAll;
  try {
    return guard(device.type()).getDeviceCapability(device).capability_data.capability_bits;
  } catch (const c10::Error& error) {
    if (!guard_lacks_function(error)) throw;
    silent.fetch_or(type, std::memory_order_relaxed);
    return kAll;
  }
}

}  // namespace anyaccel::torch_parts
