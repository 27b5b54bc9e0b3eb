// 6-bit weights (sign, three bits of exponent, two bits of mantissa: 0, 1/16 to 28) in two byte
// arrays, for products with halves. Plain arrays, no torch.
//
// Each output has consecutive blocks of 64 inputs. Byte i of 32 in the 4-bit array has the lowest
// four bits (two of the exponent, the mantissa) of input i, and those of input i + 32 in its upper
// half. Byte i of 16 in the 2-bit array has the sign and the exponent's first bit of the inputs i,
// i + 16, i + 32 and i + 48, from the lowest bits upwards.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Inputs per block.
constexpr std::int64_t six_block = 64;

struct SixBits {
  std::int64_t inputs = 0;             ///< a multiple of six_block
  const std::uint8_t* two = nullptr;   ///< [outputs][inputs / 4]
  const std::uint8_t* four = nullptr;  ///< [outputs][inputs / 2]
};

/// Converts `count` halves, a multiple of six_block, to two[count / 4] and four[count / 2],
/// rounding towards 0 like DeepSpeed. Returns the index of the first value that is not 0 and whose
/// magnitude is not between 1/16 and 28, or -1 if there is none.
std::int64_t to_six_bits(const Fp16* from, std::int64_t count, std::uint8_t* two,
                         std::uint8_t* four) noexcept;

/// Multiplying the halves of from_six_bits() by this gives the values. from_six_bits() copies the
/// exponent bits without correcting the bias.
constexpr float six_unit = 4096;

/// Converts the outputs [begin, end) to to[end - begin][inputs].
void from_six_bits(Isa isa, const SixBits& weight, std::int64_t begin, std::int64_t end,
                   Fp16* to) noexcept;

}  // namespace anyaccel::ops
