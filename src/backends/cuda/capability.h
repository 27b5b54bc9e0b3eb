// What a compute capability means for data types and kernels. Pure functions, no torch.
#pragma once

#include <utility>

namespace anyaccel::backends::cuda {

using Capability = std::pair<int, int>;  ///< (major, minor); (-1, -1) where it is unknown

/// From 7.0 (tensor cores); 6.x is deprecated and counts only with DS_ALLOW_DEPRECATED_FP16=1, as
/// in DeepSpeed.
constexpr bool fast_fp16(Capability capability, bool allow_deprecated) noexcept {
  return capability.first >= 7 || (capability.first == 6 && allow_deprecated);
}

/// Instructions for it from 8.0. Below, torch emulates it, and torch.cuda.is_bf16_supported() says
/// true.
constexpr bool fast_bf16(Capability capability) noexcept { return capability.first >= 8; }

/// float8_e4m3fn and float8_e5m2 matrix products: torch._scaled_mm wants 8.9 or 9.0 and above.
constexpr bool fp8(Capability capability) noexcept { return capability >= Capability{8, 9}; }

/// Triton generates code from 8.0.
constexpr bool triton(Capability capability) noexcept { return capability.first >= 8; }

/// torch._grouped_mm is one fused kernel from 9.0 and a slow loop below it, where Triton's is
/// faster.
constexpr bool prefers_triton_grouped_mm(Capability capability) noexcept {
  return capability.first >= 7 && capability.first < 9;
}

}  // namespace anyaccel::backends::cuda
