// 6-bit floating-point weights, stored in two byte arrays, for matrix products with fp16 inputs. A
// weight has a sign bit, three exponent bits and two mantissa bits; its magnitude is 0 or from 1/16
// to 28. Works on plain arrays; independent of torch.
//
// Each output has consecutive blocks of 64 inputs. In the 4-bit array, a block has 32 bytes. Byte i
// has the lowest four bits (two of the exponent, two of the mantissa) of input i in its lower half,
// and those of input i + 32 in its upper half. In the 2-bit array, a block has 16 bytes. Byte i has
// the sign and the highest exponent bit of the inputs i, i + 16, i + 32 and i + 48, from the lowest
// bits upward.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Number of inputs per block.
constexpr std::int64_t six_block = 64;

struct SixBits {
  std::int64_t inputs = 0;             ///< multiple of six_block
  const std::uint8_t* two = nullptr;   ///< [outputs][inputs / 4]
  const std::uint8_t* four = nullptr;  ///< [outputs][inputs / 2]
};

/// Converts `count` fp16 values to two[count / 4] and four[count / 2], rounding toward 0 like
/// DeepSpeed. `count` is a multiple of six_block. Returns the index of the first nonzero value
/// whose magnitude is not between 1/16 and 28, or -1 if all values can be converted.
std::int64_t to_six_bits(const Fp16* from, std::int64_t count, std::uint8_t* two,
                         std::uint8_t* four) noexcept;

/// Factor that converts the results of from_six_bits() to the weights' values. from_six_bits()
/// copies the exponent bits without correcting their bias.
constexpr float six_unit = 4096;

/// Converts the outputs [begin, end) and writes them to to[end - begin][inputs]. Multiply the
/// results by six_unit.
void from_six_bits(Isa isa, const SixBits& weight, std::int64_t begin, std::int64_t end,
                   Fp16* to) noexcept;

}  // namespace anyaccel::ops
