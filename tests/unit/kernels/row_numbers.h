// Rows of numbers of every element type, and their comparison with double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "kernels/simd/element.h"
#include "unit/kernels/arrays.h"

namespace op_tests {

using anyaccel::ops::Bf16;
using anyaccel::ops::Fp16;

template <typename S>
struct Kind {
  static S of(double value) {
    if constexpr (std::is_same_v<S, Bf16> || std::is_same_v<S, Fp16>)
      return S{static_cast<std::uint16_t>(to_bits(value, element))};
    else
      return static_cast<S>(value);
  }
  static double number(S value) {
    if constexpr (std::is_same_v<S, Bf16> || std::is_same_v<S, Fp16>)
      return from_bits(value.bits, element);
    else
      return static_cast<double>(value);
  }
  static constexpr Element element = std::is_same_v<S, Bf16>   ? Element::bf16
                                     : std::is_same_v<S, Fp16> ? Element::fp16
                                                               : Element::f32;
  static constexpr double error = std::is_same_v<S, Bf16>   ? 8e-3
                                  : std::is_same_v<S, Fp16> ? 1e-3
                                                            : 4e-6;
};

/// An array of S followed by guard elements, which must not change.
template <typename S>
struct Numbers {
  explicit Numbers(std::int64_t count)
      : size(count), memory(static_cast<std::size_t>(count + 32), Kind<S>::of(77)) {}
  /// Numbers that every type represents exactly, so that all types get the same input.
  Numbers(std::int64_t count, std::uint64_t seed, double least = -2, double most = 2)
      : Numbers(count) {
    Random random(seed);
    for (std::int64_t i = 0; i < count; ++i)
      at(i) =
          Kind<S>::of(rounded(rounded(random.between(least, most), Element::bf16), Element::fp16));
  }
  S& at(std::int64_t i) { return memory[static_cast<std::size_t>(i)]; }
  S* data() { return memory.data(); }
  double operator[](std::int64_t i) const {
    return Kind<S>::number(memory[static_cast<std::size_t>(i)]);
  }
  bool guard_whole() const {
    for (std::int64_t i = size; i < size + 32; ++i)
      if ((*this)[i] != 77) return false;
    return true;
  }

  std::int64_t size;
  std::vector<S> memory;
};

/// Memory with the alignment that the layer guarantees.
template <typename T>
std::unique_ptr<T[], void (*)(T*)> aligned(std::int64_t count) {
  return {static_cast<T*>(
              ::operator new (static_cast<std::size_t>(count) * sizeof(T), std::align_val_t{64})),
          [](T* at) { ::operator delete (at, std::align_val_t{64}); }};
}

/// One result of a kernel. Results in the compute dtype have a tighter error bound.
struct Result {
  const char* name;
  std::vector<double> values;
  bool narrow;
};
template <typename S>
void keep(std::vector<Result>* results, const char* name, const Numbers<S>& numbers, bool narrow) {
  EXPECT_TRUE(numbers.guard_whole()) << name;
  Result result{name, {}, narrow};
  for (std::int64_t i = 0; i < numbers.size; ++i) result.values.push_back(numbers[i]);
  results->push_back(result);
}

inline void expect_near(const std::vector<Result>& got, const std::vector<Result>& want,
                        double error, double narrow_error) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double bound = got[i].narrow ? narrow_error : error;
    for (std::size_t j = 0; j < got[i].values.size(); ++j)
      ASSERT_NEAR(got[i].values[j], want[i].values[j], bound * (1 + std::abs(want[i].values[j])))
          << got[i].name << " " << j;
  }
}

}  // namespace op_tests
