// Round-trips every 6-bit code with all instruction sets and compares the results with a reference
// implementation of the format.
#include "kernels/quantization/fp6.h"

#include <vector>

#include "unit/kernels/arrays.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

constexpr std::uint8_t guard = 0xa5;

double number_of(int code) {
  const int exponent = code >> 2 & 7, mantissa = code & 3;
  const double size = exponent == 0 ? mantissa / 16.0 : std::ldexp(4 + mantissa, exponent - 5);
  return code & 32 ? -size : size;
}

Fp16 half_of(double value) { return {static_cast<std::uint16_t>(to_bits(value, Element::fp16))}; }

struct Packed {
  std::vector<std::uint8_t> two, four;
  std::int64_t bad;
};

Packed pack(const std::vector<Fp16>& from) {
  Packed out{std::vector<std::uint8_t>(from.size() / 4 + 8, guard),
             std::vector<std::uint8_t>(from.size() / 2 + 8, guard), -1};
  out.bad = to_six_bits(from.data(), static_cast<std::int64_t>(from.size()), out.two.data(),
                        out.four.data());
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(out.two.end()[-1 - i] == guard && out.four.end()[-1 - i] == guard);
  return out;
}

// Fails if a code has the wrong value or position, or an instruction set misreads a code or writes
// out of bounds.
TEST(SixBits, EveryCodeAtEveryPosition) {
  constexpr std::int64_t outputs = 64, inputs = 2 * six_block;
  std::vector<int> codes;
  std::vector<Fp16> from;
  for (std::int64_t i = 0; i < outputs * inputs; ++i) {
    codes.push_back(static_cast<int>((i * 37 + i / 64 * 5) % 64));
    from.push_back(half_of(number_of(codes.back())));
  }
  const Packed packed = pack(from);
  ASSERT_EQ(packed.bad, -1);
  const SixBits weight{inputs, packed.two.data(), packed.four.data()};
  for (const Isa isa : sets()) {
    SCOPED_TRACE(to_string(isa));
    std::vector<Fp16> to(from.size() - inputs + 8, Fp16{0x7777});
    from_six_bits(isa, weight, 1, outputs, to.data());
    for (std::size_t i = 0; i < to.size() - 8; ++i)
      ASSERT_EQ(to[i].bits, half_of(number_of(codes[i + inputs]) / six_unit).bits) << i;
    for (std::size_t i = to.size() - 8; i < to.size(); ++i) ASSERT_EQ(to[i].bits, 0x7777);
  }
}

// Fails if a value between two codes is not rounded toward 0, or an out-of-range value is accepted.
TEST(SixBits, RoundsTowardZeroAndRejectsOutOfRange) {
  for (int half = 0; half < 1 << 16; ++half) {
    const double size = static_cast<double>(
        (half & 0x7fff) >> 10 ? std::ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25)
                              : std::ldexp(half & 1023, -24));
    std::vector<Fp16> from(six_block, Fp16{0});
    from[static_cast<std::size_t>(half % six_block)].bits = static_cast<std::uint16_t>(half);
    const Packed packed = pack(from);
    if (size != 0 && (size < 1.0 / 16 || size > 28)) {
      ASSERT_EQ(packed.bad, half % six_block) << half;
      continue;
    }
    ASSERT_EQ(packed.bad, -1) << half;
    int want = 0;
    for (int code = 0; code < 32; ++code)
      if (number_of(code) <= size) want = code;
    std::vector<Fp16> to(six_block);
    from_six_bits(Isa::scalar, {six_block, packed.two.data(), packed.four.data()}, 0, 1, to.data());
    ASSERT_EQ(to[static_cast<std::size_t>(half % six_block)].bits,
              half_of(number_of(want | (half >> 15 << 5)) / six_unit).bits)
        << half;
  }
}

}  // namespace
