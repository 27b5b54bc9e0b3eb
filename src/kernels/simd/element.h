// Element types that the kernels support. Independent of torch.
#pragma once

#include <cstdint>

namespace anyaccel::ops {

/// A bfloat16 or IEEE half-precision number in memory. Kernels compute in float.
struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

enum class Element { f32, bf16, fp16 };

/// Returns true if the reciprocal of a divisor that is at least `eps` could be subnormal or
/// overflow.
constexpr bool no_reciprocal(float eps) { return eps > 1e30F || (eps > 0 && eps < 0x1p-125F); }

constexpr int size_of(Element element) { return element == Element::f32 ? 4 : 2; }

}  // namespace anyaccel::ops
