// Helpers for the suites: tensors, conditions, and work that takes time.
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
/// An uninitialized tensor of `bytes` bytes on the current device.
at::Tensor bytes_on(const Accelerator& accelerator, std::int64_t bytes);
/// `count` uniform random float32 values from the device's default generator, copied to the host.
std::vector<double> drawn(const Accelerator& accelerator, std::int64_t count = 64);
/// The values of a tensor, copied to the host.
std::vector<double> values(const at::Tensor& tensor);
/// The first value of a tensor.
double first(const at::Tensor& tensor);
/// A float32 host tensor 0, 1, 2, ...
at::Tensor host_sequence(std::int64_t count);
at::Tensor to_device(const Accelerator& accelerator, const at::Tensor& host);

/// True if the device's memory is host memory.
bool on_host(const Accelerator& accelerator);
/// True if a simulated device stands in for the hardware.
bool standing_in();
/// Skip reason for guarantees of the hardware.
inline constexpr const char* kNotImitated =
    "the simulated device does not provide this guarantee of the hardware";

/// These functions skip the case unless their condition holds.
void need_devices(const Accelerator& accelerator, int count);
/// Needs device names with an index, so that torch can tell the devices apart.
void need_indexed_names(const Accelerator& accelerator);
void need_separate_devices(const Accelerator& accelerator, int count);
void need_asynchronous(const Accelerator& accelerator);
void need_own_memory(const Accelerator& accelerator);
/// Number of allocated bytes. Skips the case if the backend does not count them.
std::int64_t allocated(const Accelerator& accelerator,
                       std::optional<DeviceIndex> index = std::nullopt);

/// Queues about `milliseconds` of work on the current stream. Returns immediately on asynchronous
/// devices.
void queue_work(const Accelerator& accelerator, double milliseconds);

/// Sets a tensor to 1 in a stream after queued work, calls `order` with that stream and another
/// one, and copies the tensor in the other one. Returns the copied value: 1 if the copy ran after
/// the work, 0 if it ran too early.
double copied_in_another_stream(
    Accelerator& accelerator,
    const std::function<void(const Stream& from, const Stream& to)>& order);

void sleep_ms(double milliseconds);
/// Polls until `done` returns true. Fails after five seconds.
void wait_until(const std::function<bool()>& done, const std::string& what);
/// Runs `body` on a new thread and rethrows its exception.
void on_thread(const std::function<void()>& body);
/// Runs `body` on `count` threads at once, with their numbers, and rethrows the first exception.
void on_threads(int count, const std::function<void(int)>& body);

/// Restores the thread's device at the end of a case.
class DeviceScope {
 public:
  explicit DeviceScope(Accelerator& accelerator)
      : accelerator_(accelerator), device_(accelerator.current_device()) {}
  ~DeviceScope() {
    try {
      accelerator_.set_device(device_);
    } catch (...) {  // the case has already failed for that reason
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Accelerator& accelerator_;
  DeviceIndex device_;
};

}  // namespace anyaccel::conformance
