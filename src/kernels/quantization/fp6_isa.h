// Converts 6-bit weights to fp16, with loops that the compiler can vectorize.
#if defined(ANYACCEL_QUANTIZATION_FP6_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_QUANTIZATION_FP6_ISA_H)
#undef ANYACCEL_QUANTIZATION_FP6_ISA_H
#else
#define ANYACCEL_QUANTIZATION_FP6_ISA_H
#endif

#include "kernels/quantization/fp6.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN

void widen_six(const SixBits& w, std::int64_t begin, std::int64_t end, Fp16* to) {
  constexpr std::int64_t quarter = six_block / 4;
  const std::uint8_t* two = w.two + begin * w.inputs / 4;
  const std::uint8_t* four = w.four + begin * w.inputs / 2;
  for (std::int64_t left = (end - begin) * w.inputs; left > 0; left -= six_block) {
    std::uint16_t here[six_block];
    for (std::int64_t part = 0; part < 4; ++part)
      for (std::int64_t i = 0; i < quarter; ++i) {
        const unsigned low = four[part % 2 * quarter + i] >> (part / 2 * 4) & 15U,
                       high = two[i] >> (part * 2) & 3U;
        // The sign becomes the highest bit of an fp16 value, followed by two zero bits.
        here[part * quarter + i] =
            static_cast<std::uint16_t>((low | (high & 1U) << 4 | (high & 2U) << 6) << 8);
      }
    __builtin_memcpy(to, here, sizeof here);
    to += six_block, two += six_block / 4, four += six_block / 2;
  }
}

ANYACCEL_ISA_END
#endif
