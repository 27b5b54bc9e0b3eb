// Helpers for the suites: tensors, skip conditions, and work that keeps a device busy.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/conformance/kit.h"
#include "anyaccel/sdk/backend.h"

namespace anyaccel::conformance {

/// Returns a 1-d tensor with `count` equal values on the current device.
at::Tensor filled(const Accelerator& accelerator, double value, std::int64_t count = 1,
                  c10::ScalarType dtype = c10::kFloat);
/// Returns an uninitialized tensor of `bytes` bytes on the current device.
at::Tensor bytes_on(const Accelerator& accelerator, std::int64_t bytes);
/// Draws `count` uniform float32 numbers from the device's default generator and copies them to the
/// host.
std::vector<double> drawn(const Accelerator& accelerator, std::int64_t count = 64);
/// Returns the elements of a tensor, copied to the host.
std::vector<double> values(const at::Tensor& tensor);
/// Returns the first element of a tensor.
double first(const at::Tensor& tensor);
/// Returns a float32 host tensor with the elements 0, 1, 2, ...
at::Tensor host_sequence(std::int64_t count);
at::Tensor to_device(const Accelerator& accelerator, const at::Tensor& host);

/// True if the device's memory is host memory.
bool on_host(const Accelerator& accelerator);
/// True if a simulated device stands in for the hardware.
bool standing_in();
/// Skip reason for cases that check guarantees of real hardware.
inline constexpr const char* kNotImitated =
    "the simulated device does not emulate this guarantee of the hardware";

/// Each of these functions skips the case if the condition in its name does not hold.
void need_devices(const Accelerator& accelerator, int count);
/// Requires that device names contain an index, so that torch can distinguish the devices.
void need_indexed_names(const Accelerator& accelerator);
void need_separate_devices(const Accelerator& accelerator, int count);
void need_asynchronous(const Accelerator& accelerator);
void need_own_memory(const Accelerator& accelerator);
/// Returns the number of allocated bytes. Skips the case if the backend does not count them.
std::int64_t allocated(const Accelerator& accelerator,
                       std::optional<DeviceIndex> index = std::nullopt);

/// Queues about `milliseconds` of work on the current stream. Returns immediately if the device is
/// asynchronous.
void queue_work(const Accelerator& accelerator, double milliseconds);

/// Sets a tensor to 1 on one stream after queued work, calls `order` with this stream and a second
/// one, and copies the tensor on the second stream. Returns the copied value: 1 if the copy ran
/// after the work, 0 if it ran too early.
double copied_in_another_stream(
    Accelerator& accelerator,
    const std::function<void(const Stream& from, const Stream& to)>& order);

void sleep_ms(double milliseconds);
/// Polls until `done` returns true. Fails after five seconds.
void wait_until(const std::function<bool()>& done, const std::string& what);
/// Runs `body` on a new thread and rethrows its exception.
void on_thread(const std::function<void()>& body);
/// Runs `body` on `count` threads concurrently and passes each call its thread index. Rethrows the
/// first exception.
void on_threads(int count, const std::function<void(int)>& body);

/// Restores the thread's current device at the end of a case.
class DeviceScope {
 public:
  explicit DeviceScope(Accelerator& accelerator)
      : accelerator_(accelerator), device_(accelerator.current_device()) {}
  ~DeviceScope() {
    try {
      accelerator_.set_device(device_);
    } catch (...) {  // the case has already failed for this reason
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Accelerator& accelerator_;
  DeviceIndex device_;
};

}  // namespace anyaccel::conformance
