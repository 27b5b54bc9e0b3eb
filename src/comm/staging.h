// Copies between device tensors and host tensors for one operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "anyaccel/accelerator.h"

namespace anyaccel::comm {

/// The side stream of each device, and the host memory that copies are still reading.
class Channels {
 public:
  /// Returns nullopt if the device has no streams or events. Copies are then synchronous.
  std::optional<Stream> side_stream(Accelerator& accelerator, DeviceIndex index);
  /// Keeps host tensors alive until the event `done` completes. Thread-safe.
  void keep(const Event& done, std::vector<at::Tensor> tensors);
  /// Waits until the copies have read all kept tensors.
  ~Channels();

 private:
  struct Kept {
    Event done;
    std::vector<at::Tensor> tensors;
  };
  std::mutex mutex_;
  std::map<DeviceIndex, std::optional<Stream>> streams_;
  std::vector<Kept> kept_;
};

enum class Use { read, write, read_and_write };

/// Returns a second tensor object with the same memory and version counter. Background threads must
/// hold only such aliases. To release a tensor that has a Python object, a thread would need the
/// GIL, which it cannot get while the interpreter shuts down; the process would then abort.
at::Tensor alias_of(const at::Tensor& tensor);

/// Call order: add() for each tensor, start(), wait_until_read() on another thread, the operation
/// on the host tensors, finish().
class Staging {
 public:
  /// `where` is the name of the operation for error messages.
  Staging(const char* where, std::shared_ptr<Channels> channels);
  /// Returns a host tensor for a tensor on the accelerator or the host, without copying the content
  /// yet. The host tensor has the same shape and dtype, is contiguous, and aliases the given tensor
  /// if possible. Throws `invalid_argument` for other devices and for sparse tensors.
  at::Tensor add(const at::Tensor& tensor, Use use);
  /// Like add(), but returns a flat tensor of bytes, so that operations that only move data support
  /// every dtype.
  at::Tensor add_bytes(const at::Tensor& tensor, Use use);
  /// Starts the copies to the host. They run after the work that is already queued on the current
  /// streams.
  void start();
  void wait_until_read();
  /// Starts the copies to the devices. Returns an event for each device that has a stream.
  std::vector<std::pair<DeviceIndex, Event>> finish();
  /// Makes the streams of the copies current until the result is destroyed.
  std::vector<std::unique_ptr<StreamGuard>> use_streams() const;
  /// Returns the tensors' devices, which torch's futures need.
  std::vector<c10::Device> devices() const;

 private:
  struct Pair {
    at::Tensor tensor;
    at::Tensor host;
    Use use;
    DeviceIndex device;  // -1 for the host
  };
  struct Device {
    std::optional<Stream> stream;
    std::optional<Event> read;
  };
  void copy_in_stream(const Device& device, DeviceIndex index, const std::function<void()>& copies);

  const char* where_;
  Accelerator& accelerator_;
  std::shared_ptr<Channels> channels_;
  std::vector<Pair> pairs_;
  std::map<DeviceIndex, Device> devices_;
};

}  // namespace anyaccel::comm
