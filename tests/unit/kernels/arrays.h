// Arrays of any element type and alignment for kernel tests, with guard bytes at both ends.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace op_tests {

using anyaccel::ops::Element;
using anyaccel::ops::Isa;

/// A floating-point type: number of fraction bits, exponent of the smallest normal number, and
/// largest finite number.
struct Format {
  int fraction;
  int lowest;
  double largest;
};
inline Format format_of(Element element) {
  switch (element) {
    case Element::bf16: return {7, -126, 0x1.fep127};
    case Element::fp16: return {10, -14, 65504.0};
    case Element::f32: break;
  }
  return {23, -126, std::numeric_limits<float>::max()};
}

/// Reference implementation of rounding in double precision: rounds to the nearest number of the
/// type, with ties to even.
inline double rounded(double value, Element element) {
  if (value == 0 || !std::isfinite(value)) return value;
  const Format format = format_of(element);
  const int exponent = std::max(std::ilogb(value), format.lowest) - format.fraction;
  const double near = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::abs(near) > format.largest
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : near;
}

/// Distance from `value` to the next representable number of the type. In the subnormal range, this
/// is the smallest subnormal number.
inline double spacing(double value, Element element) {
  const Format format = format_of(element);
  const int exponent = value == 0 || !std::isfinite(value)
                           ? format.lowest
                           : std::max(std::ilogb(value), format.lowest);
  return std::ldexp(1.0, exponent - format.fraction);
}

inline std::uint32_t to_bits(double value, Element element) {
  const auto single = static_cast<float>(rounded(value, element));
  const auto bits = std::bit_cast<std::uint32_t>(single);
  if (element == Element::f32) return bits;
  if (element == Element::bf16) return std::isnan(single) ? 0x7fc0U : bits >> 16;
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  if (std::isnan(single)) return sign | 0x7e00U | ((bits >> 13) & 0x3ffU);
  if (std::isinf(single)) return sign | 0x7c00U;
  const double size = std::abs(static_cast<double>(single));
  if (size < 0x1p-14) return sign | static_cast<std::uint32_t>(size * 0x1p24);
  const int exponent = std::ilogb(size);
  return sign | (static_cast<std::uint32_t>(exponent + 15) << 10) |
         (static_cast<std::uint32_t>(std::ldexp(size, 10 - exponent)) & 0x3ffU);
}

inline double from_bits(std::uint32_t bits, Element element) {
  if (element == Element::f32) return std::bit_cast<float>(bits);
  if (element == Element::bf16) return std::bit_cast<float>(bits << 16);
  const int exponent = static_cast<int>((bits >> 10) & 31U);
  const double fraction = bits & 0x3ffU;
  const double sign = bits & 0x8000U ? -1 : 1;
  if (exponent == 31)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

class Array {
 public:
  Array(Element element, std::int64_t size, std::size_t offset)
      : element_(element), size_(size), offset_(guard + offset) {
    memory_.assign((static_cast<std::size_t>(size) + offset_ + guard) * width(), 0xa5);
  }
  void* data() { return memory_.data() + offset_ * width(); }
  Element element() const { return element_; }
  std::int64_t size() const { return size_; }
  void set(std::int64_t i, double value) {
    const std::uint32_t bits = to_bits(value, element_);
    std::memcpy(place(i), &bits, width());
  }
  double get(std::int64_t i) const { return from_bits(bits(i), element_); }
  std::uint32_t bits(std::int64_t i) const {
    std::uint32_t out = 0;
    std::memcpy(&out, memory_.data() + (offset_ + static_cast<std::size_t>(i)) * width(), width());
    return out;
  }
  /// Compares bits. Two NaNs are considered equal, because the bits of a NaN depend on the
  /// processor.
  bool same(std::int64_t i, const Array& other) const {
    return bits(i) == other.bits(i) || (std::isnan(get(i)) && std::isnan(other.get(i)));
  }
  bool guards_whole() const {
    const std::size_t head = offset_ * width();
    const std::size_t tail = (offset_ + static_cast<std::size_t>(size_)) * width();
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < head || i >= tail) && memory_[i] != 0xa5) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 32;
  std::size_t width() const { return static_cast<std::size_t>(size_of(element_)); }
  unsigned char* place(std::int64_t i) {
    return memory_.data() + (offset_ + static_cast<std::size_t>(i)) * width();
  }

  Element element_;
  std::int64_t size_;
  std::size_t offset_;
  std::vector<unsigned char> memory_;
};

/// Random values for test cases.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine_);
  }
  bool once_in(int n) { return whole(1, n) == 1; }
  std::size_t offset() { return static_cast<std::size_t>(whole(0, 15)); }
  /// Usually at most 130 elements, which tests vectors and tails; otherwise up to 5000.
  std::int64_t length() { return once_in(5) ? whole(0, 5000) : whole(0, 130); }
  Element element() { return static_cast<Element>(whole(0, 2)); }
  Element beside(Element params) { return once_in(2) ? Element::f32 : params; }
  /// A positive or negative number with a magnitude from 10^low to 10^high.
  double value(double low = -8, double high = 2) {
    return (once_in(2) ? 1 : -1) * std::pow(10.0, between(low, high));
  }
  double special() {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double all[] = {
        0.0,   -0.0,      infinity, -infinity, std::numeric_limits<double>::quiet_NaN(),
        1e-42, -0x1p-149, 1e19,     3e38,      -3e38,
        6e-8,  65504,     1e-30};
    return all[whole(0, static_cast<std::int64_t>(std::size(all)) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

inline std::vector<Isa> supported(std::initializer_list<Isa> all) {
  std::vector<Isa> out;
  for (const Isa isa : all)
    if (anyaccel::ops::has_isa(isa)) out.push_back(isa);
  return out;
}
/// Returns the instruction sets that this machine supports and for which all kernels may have
/// different code. The first one is scalar, the reference for the others.
inline std::vector<Isa> sets() {
  return supported({Isa::scalar, Isa::neon, Isa::neon_bf16, Isa::avx2, Isa::avx512});
}
/// The sets() and those for which only the decoder's matrix products have their own code.
inline std::vector<Isa> decoder_sets() {
  return supported({Isa::scalar, Isa::neon, Isa::neon_dotprod, Isa::neon_i8mm, Isa::neon_bf16,
                    Isa::avx2, Isa::avx512});
}

}  // namespace op_tests
