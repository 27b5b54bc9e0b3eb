// Tests the formats of DeepSpeed's integer quantization: dequantization in fp16, and the order of
// groups for an all-to-all.
#include "kernels/quantization/integer_blocks.h"
#include "unit/kernels/device_elements.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

// Fails if unsigned codes are read as signed or use the wrong scale, or the result is not rounded
// to fp16 after each step.
TEST(Quantizer, HalvesAreRoundedAfterEachStep) {
  Random random(11);
  for (int i = 0; i < rounds(200); ++i) {
    const int bits = random.once_in(2) ? 8 : 4;
    const std::int64_t groups = random.whole(1, 5), group = random.whole(1, 60) * 2,
                       size = groups * group;
    std::vector<std::uint8_t> from;
    for (std::int64_t k = 0; k < size * bits / 8; ++k)
      from.push_back(static_cast<std::uint8_t>(random.whole(0, 255)));
    Array scales(Element::fp16, groups, 0), least(Element::fp16, groups, 0),
        expected(Element::fp16, size, 0);
    for (std::int64_t g = 0; g < groups; ++g) {
      scales.set(g, random.once_in(10) ? random.special() : random.value(-1, 3));
      least.set(g, random.value(-2, 1));
    }
    const auto job = [&](Array& to) {
      return DequantizeHalfJob{from.data(),
                               bits,
                               static_cast<Fp16*>(scales.data()),
                               static_cast<Fp16*>(least.data()),
                               group,
                               static_cast<Fp16*>(to.data())};
    };
    for (std::int64_t k = 0; k < size; ++k) {
      const int byte = from[static_cast<std::size_t>(bits == 8 ? k : k / 2)];
      const int code = bits == 8 ? byte : k % 2 == 0 ? byte / 16 : byte % 16;
      const double quotient = rounded(
          static_cast<float>(code) / static_cast<float>(scales.get(k / group)), Element::fp16);
      expected.set(k, static_cast<float>(quotient) + static_cast<float>(least.get(k / group)));
    }
    for (const Isa isa : sets()) {
      Array ours(Element::fp16, size, random.offset());
      const std::int64_t half = size / 4 * 2;
      dequantize_half_part(isa, job(ours), half, size);
      dequantize_half_part(isa, job(ours), 0, half);
      op_tests::expect_same(ours, expected, to_string(isa));
    }
    Array device(Element::fp16, size, 0);
    for (std::int64_t k = 0; k < size; ++k) dequantize_half_element<DeviceFp16>(job(device), k);
    op_tests::expect_same(device, expected, "device");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if two groups get the same position, or groups are not in the order that DeepSpeed's
// all-to-all expects.
TEST(Quantizer, SwizzledOrder) {
  const GroupOrder two_nodes{1, 1, 2, 4, true};
  std::vector<std::int64_t> found(8);
  for (std::int64_t group = 0; group < 8; ++group)
    found[static_cast<std::size_t>(place_of(two_nodes, group))] = group;
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 4, 1, 5, 2, 6, 3, 7}));
  // Each partition consists of two slices of three groups. The first slices of all partitions
  // precede the second slices.
  const GroupOrder sliced{3, 2, 2, 1, true};
  std::vector<std::int64_t> places;
  for (std::int64_t group = 0; group < 12; ++group) places.push_back(place_of(sliced, group));
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11}));
}

}  // namespace
