// Detects a CUDA build of LibTorch, which registers device types that tests would otherwise
// replace.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <string>

namespace anyaccel::test {

/// Returns whether a CUDA build of LibTorch prevents tests from replacing the device type `name`.
/// For tests that use autograd, such a build also prevents replacing "hpu", "xpu", "mps" and
/// "mtia".
inline bool place_is_taken(const std::string& name, bool autograd = false) {
  const bool cuda = c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA);
  return cuda && (name == "cuda" || (autograd && (name == "hpu" || name == "xpu" || name == "mps" ||
                                                  name == "mtia")));
}

}  // namespace anyaccel::test

#define ANYACCEL_SKIP_IF_TAKEN(...)                    \
  if (::anyaccel::test::place_is_taken(__VA_ARGS__)) { \
    GTEST_SKIP() << "this LibTorch is built for CUDA"; \
  }
