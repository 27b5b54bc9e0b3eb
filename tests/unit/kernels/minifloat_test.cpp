// Tests group-wise minifloat quantization. The kernels for all instruction sets and the CUDA thread
// blocks, which run on the host, must match a reference implementation of the formats bit for bit.
// Out-of-bounds writes are detected.
#include <functional>

#include "kernels/quantization/minifloat_blocks.h"
#include "unit/kernels/device_elements.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

using BlockLanes = HostLanes<fp_quantizer_lanes>;
using Rows = Bytes<std::uint8_t>;

struct Case {
  FloatFormat format;
  std::int64_t groups, group;
  bool stochastic;
  std::uint64_t seed;
  Array from;

  ToFloatsJob job(Rows& to) {
    return {from.data(), from.element(), format, group, to.data(), stochastic, seed};
  }
  std::int64_t bytes() const { return row_bytes(format, group); }
};

FloatFormat random_format(Random& random) { return float_formats[random.whole(0, 4)]; }

Case random_case(Random& random, bool special) {
  const FloatFormat format = random_format(random);
  std::int64_t group = 1 + random.length();
  while (group * format.bits % 8 != 0) ++group;
  const std::int64_t groups = random.whole(0, 5);
  Case out{format,
           groups,
           group,
           random.once_in(3),
           static_cast<std::uint64_t>(random.whole(0, 1 << 30)),
           Array(random.element(), groups * group, random.offset())};
  for (std::int64_t i = 0; i < out.from.size(); ++i)
    out.from.set(i, special && random.once_in(40) ? random.special() : random.value(-5, 1));
  return out;
}

std::vector<std::uint8_t> made_by(Case& arguments,
                                  const std::function<void(const ToFloatsJob&)>& run) {
  Rows to(arguments.groups * arguments.bytes(), 3);
  run(arguments.job(to));
  EXPECT_TRUE(to.guards_whole());
  return to.values();
}

std::vector<std::uint8_t> quantized(Isa isa, Case& arguments) {
  return made_by(arguments,
                 [&](const ToFloatsJob& job) { to_floats(isa, job, 0, arguments.groups); });
}

std::int32_t code_in(const std::uint8_t* row, FloatFormat format, std::int64_t i) {
  std::int32_t code = 0;
  for (int bit = 0; bit < format.bits; ++bit) {
    const std::int64_t at = i * format.bits + bit;
    code |= ((row[at / 8] >> (at % 8)) & 1) << bit;
  }
  return code;
}
float step_of(const std::uint8_t* row, FloatFormat format, std::int64_t group) {
  float step;
  std::memcpy(&step, row + group * format.bits / 8, 4);
  return step;
}

/// The value of a code, as in IEEE formats but without infinities and NaN.
double number(FloatFormat f, std::int32_t code) {
  const int exponent_bits = f.bits - f.mantissa - 1, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (code >> f.mantissa) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(code & ((1 << f.mantissa) - 1), -f.mantissa);
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return code >> (f.bits - 1) ? -size : size;
}

bool same_bytes(const std::vector<std::uint8_t>& ours, const std::vector<std::uint8_t>& expected,
                const Case& arguments) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == expected[i]) continue;
    // If the step size is NaN, its bits may differ between processors.
    const std::size_t row = i / static_cast<std::size_t>(arguments.bytes()) *
                            static_cast<std::size_t>(arguments.bytes());
    if (!std::isnan(step_of(ours.data() + row, arguments.format, arguments.group)) ||
        !std::isnan(step_of(expected.data() + row, arguments.format, arguments.group)))
      return false;
  }
  return true;
}

// Fails if two kernels write different rows, or rows depend on the order of threads. Covers tails,
// packing and the random numbers of stochastic rounding.
TEST(FpQuantizer, AllKernelsProduceTheSameRows) {
  Random random(17);
  for (int i = 0; i < rounds(400); ++i) {
    Case arguments = random_case(random, random.once_in(2));
    const auto expected = quantized(Isa::scalar, arguments);
    const std::string what =
        std::to_string(arguments.format.bits) + " bits, group " + std::to_string(arguments.group);
    for (const Isa isa : sets())
      ASSERT_TRUE(same_bytes(quantized(isa, arguments), expected, arguments))
          << what << " " << to_string(isa);
    for (const bool backwards : {false, true}) {
      const auto device = made_by(arguments, [&](const ToFloatsJob& job) {
        std::vector<std::int32_t> lanes(fp_quantizer_lanes);
        for (std::int64_t group = arguments.groups; group-- > 0;)
          with_device_type(arguments.from.element(), [&](auto type) {
            to_floats_block<decltype(type)>(job, greatest_of(arguments.format), group, lanes.data(),
                                            BlockLanes{backwards});
          });
      });
      ASSERT_TRUE(same_bytes(device, expected, arguments)) << what << " device";
    }
  }
}

// Fails if a format's range, exponent bias or packing is wrong, or a number is not quantized to the
// nearest code.
TEST(FpQuantizer, CodesAreNearest) {
  Random random(18);
  const double greatest[] = {480, 114688, 510, 28, 6};
  for (int which = 0; which < 5; ++which) {
    const FloatFormat format = float_formats[which];
    EXPECT_EQ(greatest_of(format), greatest[which]);
    EXPECT_EQ(number(format, size_mask_of(format)), greatest[which]);
    std::vector<double> numbers;
    for (std::int32_t code = 0; code <= size_mask_of(format); ++code)
      numbers.push_back(number(format, code));
    for (int i = 0; i < 25; ++i) {
      Case arguments = random_case(random, false);
      arguments.format = format;
      arguments.stochastic = false;
      arguments.group = (arguments.group + 7) / 8 * 8;
      arguments.from = Array(Element::f32, arguments.groups * arguments.group, 0);
      for (std::int64_t k = 0; k < arguments.from.size(); ++k)
        arguments.from.set(k, random.once_in(20) ? 0 : random.value(-6, 1));
      const auto rows = quantized(sets().back(), arguments);
      for (std::int64_t g = 0; g < arguments.groups; ++g) {
        const std::uint8_t* row = rows.data() + g * arguments.bytes();
        float most = 0;
        for (std::int64_t k = 0; k < arguments.group; ++k)
          most = std::max(
              most, static_cast<float>(std::abs(arguments.from.get(g * arguments.group + k))));
        ASSERT_EQ(step_of(row, format, arguments.group),
                  most / static_cast<float>(greatest[which]));
        for (std::int64_t k = 0; k < arguments.group && most > 0; ++k) {
          const auto y = static_cast<float>(arguments.from.get(g * arguments.group + k)) *
                         (static_cast<float>(greatest[which]) / most);
          const double size = std::abs(static_cast<double>(y));
          const auto above = static_cast<std::int32_t>(
              std::lower_bound(numbers.begin(), numbers.end(), size) - numbers.begin());
          std::int32_t code = std::min(above, size_mask_of(format));
          if (code > 0 && size - numbers[static_cast<std::size_t>(code - 1)] <
                              numbers[static_cast<std::size_t>(code)] - size)
            --code;
          if (std::signbit(y)) code |= 1 << (format.bits - 1);
          ASSERT_EQ(code_in(row, format, k), code) << y << " in " << format.bits << " bits";
        }
      }
    }
  }
}

// Fails if a value adjacent to a midpoint is rounded like the midpoint. Midpoints round away from
// 0, except that midpoints between subnormal numbers round to even.
TEST(FpQuantizer, RoundsAroundMidpoints) {
  for (const FloatFormat format : float_formats) {
    std::vector<std::pair<float, std::int32_t>> wanted{
        {greatest_of(format), size_mask_of(format)}};  // makes the scale 1
    for (std::int32_t code = 0; code < size_mask_of(format); ++code) {
      const auto middle = static_cast<float>((number(format, code) + number(format, code + 1)) / 2);
      wanted.insert(wanted.end(),
                    {{std::nextafter(middle, 0.0F), code},
                     {middle, code < 1 << format.mantissa ? (code + 1) / 2 * 2 : code + 1},
                     {std::nextafter(middle, INFINITY), code + 1},
                     {static_cast<float>(number(format, code)), code}});
    }
    while (wanted.size() % 8 != 0) wanted.emplace_back(0.0F, 0);
    const auto group = static_cast<std::int64_t>(wanted.size());
    Case arguments{format, 1, group, false, 0, Array(Element::f32, group, 0)};
    for (std::int64_t i = 0; i < group; ++i)
      arguments.from.set(i, wanted[static_cast<std::size_t>(i)].first);
    for (const Isa isa : sets()) {
      const auto row = quantized(isa, arguments);
      for (std::int64_t i = 0; i < group; ++i)
        ASSERT_EQ(code_in(row.data(), format, i), wanted[static_cast<std::size_t>(i)].second)
            << to_string(isa) << " " << i;
    }
  }
}

// Fails if an element is read from the wrong place, or a subnormal step gives wrong values.
TEST(FpQuantizer, AllKernelsDequantizeToTheSameValues) {
  Random random(19);
  int aligned = 0;
  for (int i = 0; i < rounds(300); ++i) {
    Case arguments = random_case(random, random.once_in(2));
    arguments.groups += 3;
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(arguments.groups * arguments.bytes()));
    for (auto& byte : rows) byte = static_cast<std::uint8_t>(random.whole(0, 255));
    for (std::int64_t g = 0; g < arguments.groups; ++g) {
      const auto step =
          static_cast<float>(random.once_in(9) ? random.special() : random.value(-3, 1));
      std::memcpy(rows.data() + (g + 1) * arguments.bytes() - 4, &step, 4);
    }
    // Dequantizes rows 1 and 2 into groups 0 and 1 of the output.
    Array expected(random.element(), 2 * arguments.group, 0);
    const bool past = random.once_in(2);
    const auto job = [&](Array& to) {
      return FromFloatsJob{rows.data(), arguments.format, arguments.group,
                           to.data(),   to.element(),     past};
    };
    for (std::int64_t k = 0; k < expected.size(); ++k) {
      const std::uint8_t* row = rows.data() + (1 + k / arguments.group) * arguments.bytes();
      const auto value = static_cast<float>(
          number(arguments.format, code_in(row, arguments.format, k % arguments.group)));
      expected.set(k, value * step_of(row, arguments.format, arguments.group));
    }
    for (const Isa isa : sets()) {
      Array ours(expected.element(), expected.size(), random.offset());
      if (past && reinterpret_cast<std::uintptr_t>(ours.data()) % 64 == 0) ++aligned;
      from_floats(isa, job(ours), 2, 1, 1);
      from_floats(isa, job(ours), 1, 0, 1);
      op_tests::expect_same(ours, expected, to_string(isa));
    }
    Array device(expected.element(), expected.size(), 0);
    with_device_type(expected.element(), [&](auto type) {
      for (std::int64_t k = device.size(); k-- > 0;)
        from_floats_element<decltype(type)>(job(device), 1 + k / arguments.group,
                                            k / arguments.group, k % arguments.group);
    });
    op_tests::expect_same(device, expected, "device");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  // These cases use non-temporal stores. A fraction of the cases may contain none.
  EXPECT_TRUE(aligned > 0 || rounds(300) < 300);
}

// Fails if stochastic rounding is biased or changes exactly representable numbers, or all elements
// use the same random number.
TEST(FpQuantizer, StochasticRoundingIsUnbiased) {
  for (const FloatFormat format : float_formats) {
    constexpr std::int64_t group = 4096;
    Case arguments{format, 1, group, true, 5, Array(Element::f32, group, 0)};
    const auto greatest = static_cast<double>(greatest_of(format));
    // Values a quarter of the way from one number to the next, for normal and subnormal numbers.
    for (const std::int32_t code : {size_mask_of(format) - 2, 1 << format.mantissa, 1, 0}) {
      const double low = number(format, code), high = number(format, code + 1),
                   value = low + (high - low) / 4;
      for (std::int64_t i = 0; i < group; ++i)
        arguments.from.set(i, i == 0 ? greatest : i % 2 ? value : low);
      const auto row = quantized(sets().back(), arguments);
      int up = 0;
      for (std::int64_t i = 1; i < group; ++i) {
        const std::int32_t found = code_in(row.data(), format, i);
        if (i % 2 == 0) {
          ASSERT_EQ(found, code);
          continue;
        }
        ASSERT_TRUE(found == code || found == code + 1) << found << " of " << code;
        up += found == code + 1;
      }
      // The tolerance is five standard deviations.
      EXPECT_NEAR(up, group / 8.0, 100) << format.bits << " bits, code " << code;
      arguments.seed += 1;
      EXPECT_NE(quantized(sets().back(), arguments), row);
    }
  }
}

// Fails if NaN or infinity is dequantized to a finite number, zeros are not preserved, or a group
// affects neighboring groups.
TEST(FpQuantizer, SpecialGroups) {
  for (const FloatFormat format : float_formats)
    for (const Isa isa : sets())
      for (const bool stochastic : {false, true})
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0, 0x1p-149}) {
          Case arguments{format, 3, 24, stochastic, 1, Array(Element::f32, 72, 0)};
          for (std::int64_t i = 0; i < 72; ++i)
            arguments.from.set(i, i / 24 == 1 ? (std::abs(bad) < 1 || i % 24 == 13 ? bad : 1) : 2);
          const auto rows = quantized(isa, arguments);
          Array read(Element::f32, 72, 0);
          from_floats(isa, {rows.data(), format, 24, read.data(), Element::f32}, 0, 0, 3);
          for (std::int64_t i = 0; i < 72; ++i) {
            if (i / 24 != 1)
              EXPECT_NEAR(read.get(i), 2, 1e-6) << i;
            else if (std::abs(bad) < 1)
              EXPECT_EQ(read.get(i), 0) << i;
            else
              EXPECT_TRUE(std::isnan(read.get(i))) << i;
          }
        }
}

}  // namespace
