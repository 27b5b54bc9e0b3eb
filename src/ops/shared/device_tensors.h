// Checks for tensors in device memory, and access to the device's current stream. Uses only c10, so
// vendor headers are not needed.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

/// Checks that `tensor` is dense and has the device and shape of `params`.
inline void check_on_device(const char* where, const char* name, const at::Tensor& tensor,
                            const at::Tensor& params) {
  if (tensor.device() != params.device())
    fail_argument(where, std::string(name) + " is on a different device than the parameters",
                  words(tensor), words(params));
  check_shape(where, name, tensor, params);
}

/// Checks that all parameters are on one device, because a launch covers a single device.
inline void check_same_device(const char* where, const at::Tensor& params,
                              const at::Tensor& first) {
  if (params.device() != first.device())
    fail_argument(where, "the parameters are on several devices", words(params), words(first),
                  "call the op once per device");
}

inline void check_chunk_size(const char* where, std::int64_t chunk_size) {
  // With smaller chunks, their number could exceed the range of int. Larger chunk sizes could
  // overflow when they are added to tensor sizes.
  if (chunk_size < 256 || chunk_size > std::numeric_limits<std::int32_t>::max())
    fail_argument(where, "the chunk size is out of range", std::to_string(chunk_size),
                  "256 to 2147483647 (DeepSpeed passes 65536)");
}

inline void check_equal_lengths(const char* where, at::TensorList params,
                                std::initializer_list<at::TensorList> others) {
  for (const at::TensorList& list : others)
    if (list.size() != params.size())
      fail_argument(where, "the lists differ in length", "length " + std::to_string(list.size()),
                    "length " + std::to_string(params.size()));
}

/// Returns the native handle of the device's current stream.
inline void* current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

/// Throws if a launch failed. `problem` is the error message, or null on success.
inline void check_launch(const char* where, const char* problem) {
  TORCH_CHECK(problem == nullptr, "[", where,
              "] the kernel launch failed: ", problem ? problem : "");
}

}  // namespace anyaccel::ops
