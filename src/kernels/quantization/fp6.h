// Weights of six bits (a sign, three bits of exponent, two of mantissa: 0, 1/16 to 28) in two
// arrays of bytes, for products with halves. Plain arrays, no torch.
//
// For each 64 inputs of an output, in order: byte i of 32 in the array of four bits has the lowest
// four bits (two of the exponent, the mantissa) of inputs i and, in its upper half, i + 32; byte i
// of 16 in the array of two bits has the sign and the exponent's first bit of inputs i, i + 16, i +
// 32 and i + 48, from the lowest bits upwards.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Inputs come in blocks of so many.
constexpr std::int64_t six_block = 64;

struct SixBits {
  std::int64_t inputs = 0;             ///< a multiple of six_block
  const std::uint8_t* two = nullptr;   ///< [outputs][inputs / 4]
  const std::uint8_t* four = nullptr;  ///< [outputs][inputs / 2]
};

/// `count` halves, a multiple of six_block, into two[count / 4] and four[count / 2], rounded
/// towards 0 as DeepSpeed does. Gives the place of the first one that is none of 0 and the numbers
/// between 1/16 and 28, and -1 where all are.
std::int64_t to_six_bits(const Fp16* from, std::int64_t count, std::uint8_t* two,
                         std::uint8_t* four) noexcept;

/// Halves of from_six_bits() times this are the numbers: the bits of a half's exponent then are
/// those of the six, in their place.
constexpr float six_unit = 4096;

/// to[outputs from begin to end][inputs].
void from_six_bits(Isa isa, const SixBits& weight, std::int64_t begin, std::int64_t end,
                   Fp16* to) noexcept;

}  // namespace anyaccel::ops
