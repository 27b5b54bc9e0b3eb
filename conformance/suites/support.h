// What the suites share: tensors of an accelerator, conditions, work that takes time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/conformance/kit.h"
#include "anyaccel/sdk/backend.h"

namespace anyaccel::conformance {

/// A 1-d tensor of `count` equal values on the current device.
at::Tensor filled(const Accelerator& accelerator, double value, std::int64_t count = 1,
                  c10::ScalarType dtype = c10::kFloat);
/// A tensor of `bytes` bytes on the current device, values not set.
at::Tensor bytes_on(const Accelerator& accelerator, std::int64_t bytes);
/// `count` uniform random float32 from the device's default generator, read back.
std::vector<double> drawn(const Accelerator& accelerator, std::int64_t count = 64);
/// The values of a tensor, read back to the host.
std::vector<double> values(const at::Tensor& tensor);
/// The first of them.
double first(const at::Tensor& tensor);
/// A host tensor 0, 1, 2, ... of float32.
at::Tensor host_sequence(std::int64_t count);
at::Tensor to_device(const Accelerator& accelerator, const at::Tensor& host);

/// True when the device's memory is the host's.
bool on_host(const Accelerator& accelerator);
/// True when something simulated stands in for the device.
bool standing_in();
/// Why what the hardware promises is not asked of its stand-in.
inline constexpr const char* kNotImitated = "a promise of the hardware that the simulated device does not keep for it";

/// These skip the case where their condition does not hold.
void need_devices(const Accelerator& accelerator, int count);
/// As many devices that can be told apart by torch: the names carry an index.
void need_indexed_names(const Accelerator& accelerator);
void need_separate_devices(const Accelerator& accelerator, int count);
void need_asynchronous(const Accelerator& accelerator);
void need_own_memory(const Accelerator& accelerator);
/// Number of allocated bytes; skips where the backend does not count.
std::int64_t allocated(const Accelerator& accelerator, std::optional<DeviceIndex> index = std::nullopt);

/// Queues work of about so many milliseconds on the current stream and returns at once where the device is asynchronous.
void queue_work(const Accelerator& accelerator, double milliseconds);

/// Sets a tensor to 1 in a stream behind such work, calls `order` with that stream and another one, and copies the tensor in
/// the other one: 1 where the copy came after, 0 where it came too early.
double copied_in_another_stream(Accelerator& accelerator,
                                const std::function<void(const Stream& from, const Stream& to)>& order);

void sleep_ms(double milliseconds);
/// Asks until `done` says true; fails after some seconds.
void wait_until(const std::function<bool()>& done, const std::string& what);
/// Runs `body` on a new thread; what it throws comes out here.
void on_thread(const std::function<void()>& body);
/// The same on `count` threads at once, with their numbers.
void on_threads(int count, const std::function<void(int)>& body);

/// Puts the thread's device back at the end of a case.
class DeviceScope {
 public:
  explicit DeviceScope(Accelerator& accelerator) : accelerator_(accelerator), device_(accelerator.current_device()) {}
  ~DeviceScope() {
    try {
      accelerator_.set_device(device_);
    } catch (...) {  // the case has failed for that already
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Accelerator& accelerator_;
  DeviceIndex device_;
};

}  // namespace anyaccel::conformance
