// Data types and kernels that a compute capability supports. Pure functions, without torch.
#pragma once

#include <utility>

namespace anyaccel::backends::cuda {

using Capability = std::pair<int, int>;  ///< (major, minor); (-1, -1) if unknown

/// True for compute capability 7.0 and later (tensor cores). 6.x is deprecated and counts only with
/// DS_ALLOW_DEPRECATED_FP16=1, as in DeepSpeed.
constexpr bool fast_fp16(Capability capability, bool allow_deprecated) noexcept {
  return capability.first >= 7 || (capability.first == 6 && allow_deprecated);
}

/// GPUs with compute capability 8.0 or later have bf16 instructions. On older GPUs, torch emulates
/// bf16, and torch.cuda.is_bf16_supported() still returns true.
constexpr bool fast_bf16(Capability capability) noexcept { return capability.first >= 8; }

/// float8_e4m3fn and float8_e5m2 matrix products: torch._scaled_mm requires 8.9 or later.
constexpr bool fp8(Capability capability) noexcept { return capability >= Capability{8, 9}; }

/// Triton generates code for compute capability 8.0 and later.
constexpr bool triton(Capability capability) noexcept { return capability.first >= 8; }

/// On GPUs with compute capability 9.0 or later, torch._grouped_mm is one fused kernel. On older
/// GPUs, it is a slow loop, and Triton's kernel is faster.
constexpr bool prefers_triton_grouped_mm(Capability capability) noexcept {
  return capability.first >= 7 && capability.first < 9;
}

}  // namespace anyaccel::backends::cuda
