// The copies of one operation: device tensors and the host tensors that stand for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "anyaccel/accelerator.h"

namespace anyaccel::comm {

/// A side stream for each device, and host memory that copies still read.
class Channels {
 public:
  /// Empty where the device has no streams or events: copies then wait.
  std::optional<Stream> side_stream(Accelerator& accelerator, DeviceIndex index);
  /// Keeps host tensors until `done`. Thread-safe.
  void keep(const Event& done, std::vector<at::Tensor> tensors);
  /// Waits for all that is kept.
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

/// Used in this order: add() each tensor, start(), on another thread wait_until_read(), and after
/// the operation on the host tensors finish().
class Staging {
 public:
  /// `where` is the operation, for messages.
  Staging(const char* where, std::shared_ptr<Channels> channels);
  /// The host tensor for one of the accelerator or of the host; `invalid_argument` for others and
  /// for sparse ones. It has the shape and dtype, is contiguous, and is the tensor itself where
  /// that can be. Not yet filled.
  at::Tensor add(const at::Tensor& tensor, Use use);
  /// The same as a flat tensor of bytes: what moves data without looking at it takes every dtype.
  at::Tensor add_bytes(const at::Tensor& tensor, Use use);
  /// Starts the copies to the host, behind what the current streams hold.
  void start();
  void wait_until_read();
  /// Starts the copies back. Returns an event for each device with one.
  std::vector<std::pair<DeviceIndex, Event>> finish();
  /// Devices of the tensors, for torch's futures.
  std::vector<c10::Device> devices() const;

 private:
  struct Pair {
    at::Tensor tensor;
    at::Tensor host;
    Use use;
    DeviceIndex device;  // -1: the host
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
