// Runs the bias kernels for all instruction sets, and the CUDA thread blocks on the host. All must
// give bitwise equal results: sums in float, rounded once.
#include "kernels/spatial/bias_add.h"
#include "kernels/spatial/bias_add_blocks.h"
#include "unit/kernels/device_elements.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

struct Case {
  Array activation, other, bias, other_bias;
  bool has_other, has_other_bias;
  std::int64_t channels;
};

Case random_case(Random& random) {
  const Element element = random.element();
  const std::int64_t channels = random.once_in(3) ? random.whole(1, 20) * 8 : random.whole(1, 600);
  const std::int64_t size = channels * random.whole(0, random.once_in(4) ? 300 : 9);
  // Half of the cases are aligned to 16 bytes, so that the device code loads several elements at
  // once.
  const bool whole = random.once_in(2);
  const auto array = [&](std::int64_t n) {
    Array out(element, n, whole ? 0 : random.offset());
    fill(out, random, false, random.once_in(3));
    return out;
  };
  Case out{array(size),       array(size),       array(channels), array(channels),
           random.once_in(2), random.once_in(2), channels};
  out.has_other_bias = out.has_other_bias && out.has_other;
  return out;
}

Array kernel(Isa isa, Case& arguments, std::int64_t pieces) {
  const Element element = arguments.activation.element();
  const std::int64_t period = bias_period(arguments.channels), size = arguments.activation.size();
  std::vector<float> bias(static_cast<std::size_t>(period));
  repeat_bias(isa, element, arguments.bias.data(),
              arguments.has_other_bias ? arguments.other_bias.data() : nullptr, arguments.channels,
              period, bias.data());
  Array out(element, size, 3);
  const BiasAdd<float> add{arguments.activation.data(),
                           arguments.has_other ? arguments.other.data() : nullptr, out.data(),
                           bias.data(), period};
  const std::int64_t periods = (size + period - 1) / period;
  for (std::int64_t i = pieces; i-- > 0;)
    bias_add(isa, element, add, periods * i / pieces * period,
             std::min(size, periods * (i + 1) / pieces * period));
  return out;
}

template <typename T>
Array device(Case& arguments) {
  Array out(arguments.activation.element(), arguments.activation.size(), 0);
  const BiasAddArrays arrays{
      .activation = arguments.activation.data(),
      .bias = arguments.bias.data(),
      .other = arguments.has_other ? arguments.other.data() : nullptr,
      .other_bias = arguments.has_other_bias ? arguments.other_bias.data() : nullptr,
      .out = out.data(),
      .size = arguments.activation.size(),
      .channels = arguments.channels};
  constexpr int most = 16 / sizeof(T);
  const int n = bias_pack(arrays, sizeof(T));
  for (std::int64_t i = arrays.size / n; i-- > 0;) {
    if (n == 1)
      bias_add_pack<T, 1>(arrays, i);
    else
      bias_add_pack<T, most>(arrays, i);
  }
  return out;
}

// Fails if kernels differ in any bit, or a kernel uses the wrong channel's bias. Also fails if
// vector loads are misaligned.
TEST(SpatialInference, AllKernelsAreBitwiseEqual) {
  Random random(61);
  int packed = 0;
  for (int i = 0; i < rounds(400); ++i) {
    Case arguments = random_case(random);
    const Element element = arguments.activation.element();
    const Array expected = kernel(Isa::scalar, arguments, 1);
    for (std::int64_t j = 0; j < expected.size(); ++j) {
      const auto value = [&](const Array& array, std::int64_t at) {
        return static_cast<float>(array.get(at));
      };
      const std::int64_t channel = j % arguments.channels;
      float sum = value(arguments.activation, j), bias = value(arguments.bias, channel);
      if (arguments.has_other) sum += value(arguments.other, j);
      if (arguments.has_other_bias) bias += value(arguments.other_bias, channel);
      const auto total = static_cast<double>(sum + bias);
      ASSERT_TRUE(expected.get(j) == rounded(total, element) ||
                  (std::isnan(total) && std::isnan(expected.get(j))))
          << j << " of " << expected.size() << ", channels " << arguments.channels;
    }
    for (const Isa isa : sets())
      expect_same(kernel(isa, arguments, random.whole(1, 4)), expected, to_string(isa));
    with_device_type(
        element, [&](auto t) { expect_same(device<decltype(t)>(arguments), expected, "device"); });
    const BiasAddArrays places{
        arguments.activation.data(), arguments.bias.data(), nullptr, nullptr, nullptr, 0,
        arguments.channels};
    packed += bias_pack(places, size_of(element)) > 1;
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(packed, rounds(400) / 20);
}

// Fails if doubles lose precision through conversion to float.
TEST(SpatialInference, DoublesKeepTheirPrecision) {
  const std::vector<double> activation{1 + 0x1p-50, 2, 3, 4, 5, 6}, bias{1, 0x1p-45, 2};
  std::vector<double> period(static_cast<std::size_t>(bias_period(3))), out(6), packs(6);
  repeat_bias(bias.data(), bias.data(), 3, bias_period(3), period.data());
  bias_add({activation.data(), activation.data(), out.data(), period.data(), bias_period(3)}, 0, 6);
  const BiasAddArrays arrays{
      activation.data(), bias.data(), activation.data(), bias.data(), packs.data(), 6, 3};
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto at = static_cast<std::size_t>(i);
    bias_add_pack<double, 1>(arrays, i);
    EXPECT_EQ(out[at], 2 * activation[at] + 2 * bias[at % 3]);
    EXPECT_EQ(packs[at], out[at]);
  }
}

}  // namespace
