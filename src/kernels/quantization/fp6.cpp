#include "kernels/quantization/fp6.h"

#define ANYACCEL_KERNEL "kernels/quantization/fp6_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {
namespace {

constexpr int least = 0x2c00, most = 0x4f00;  // 1/16 and 28 as fp16
// min_normal is 1/4 as fp16. rebias subtracts 12 from an exponent that is followed by two mantissa
// bits.
constexpr int min_normal = 0x3400, rebias = 48;

/// Returns the 6-bit code of an fp16 value, or -1 if it is out of range.
int six_of(int half) {
  const int sign = half >> 15 << 5, size = half & 0x7fff;
  if (size == 0) return sign;
  if (size < least || size > most) return -1;
  if (size >= min_normal) return sign | ((size >> 8) - rebias);
  return sign | (((size >> 8 & 3) | 4) >> (13 - (size >> 10)));
}

}  // namespace

std::int64_t to_six_bits(const Fp16* from, std::int64_t count, std::uint8_t* two,
                         std::uint8_t* four) noexcept {
  for (std::int64_t block = 0; block < count; block += six_block) {
    int codes[six_block];
    for (int i = 0; i < six_block; ++i)
      if ((codes[i] = six_of(from[block + i].bits)) < 0) return block + i;
    for (int i = 0; i < six_block / 2; ++i)
      *four++ = static_cast<std::uint8_t>((codes[i] & 15) | (codes[i + six_block / 2] & 15) << 4);
    for (int i = 0; i < six_block / 4; ++i) {
      int byte = 0;
      for (int part = 0; part < 4; ++part)
        byte |= codes[i + part * six_block / 4] >> 4 << (2 * part);
      *two++ = static_cast<std::uint8_t>(byte);
    }
  }
  return -1;
}

void from_six_bits(Isa isa, const SixBits& weight, std::int64_t begin, std::int64_t end,
                   Fp16* to) noexcept {
  ANYACCEL_CALL_ISA(isa, widen_six, weight, begin, end, to);
}

}  // namespace anyaccel::ops
