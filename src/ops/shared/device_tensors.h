// Checks of tensors in device memory, and the device's current stream. Uses c10 only, so no vendor
// headers are needed.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

/// Checks that `tensor` has the device and shape of `params` and is dense.
inline void check_on_device(const char* where, const char* name, const at::Tensor& tensor,
                            const at::Tensor& params) {
  if (tensor.device() != params.device())
    fail_argument(where, std::string(name) + " is on another device than the parameters",
                  words(tensor), words(params));
  check_shape(where, name, tensor, params);
}

/// One launch covers one device.
inline void check_same_device(const char* where, const at::Tensor& params,
                              const at::Tensor& first) {
  if (params.device() != first.device())
    fail_argument(where, "the parameters are on several devices", words(params), words(first),
                  "call the op once per device");
}

inline void check_chunk_size(const char* where, std::int64_t chunk_size) {
  // Smaller chunks could exceed an int's range in number; larger ones could overflow when added to
  // sizes.
  if (chunk_size < 256 || chunk_size > std::numeric_limits<std::int32_t>::max())
    fail_argument(where, "the chunk size is out of range", std::to_string(chunk_size),
                  "256 to 2147483647 (DeepSpeed passes 65536)");
}

inline void check_equal_lengths(const char* where, at::TensorList params,
                                std::initializer_list<at::TensorList> others) {
  for (const at::TensorList& list : others)
    if (list.size() != params.size())
      fail_argument(where, "the lists differ in length", std::to_string(list.size()),
                    std::to_string(params.size()));
}

/// Native handle of the device's current stream.
inline void* current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

/// Throws if a launch failed. `problem` is its error; null means success.
inline void check_launch(const char* where, const char* problem) {
  TORCH_CHECK(problem == nullptr, "[", where, "] the kernel launch failed; got ",
              problem ? problem : "");
}

}  // namespace anyaccel::ops
