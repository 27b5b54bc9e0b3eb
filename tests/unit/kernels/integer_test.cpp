// Tests group-wise int8 and int4 quantization. The kernels for all instruction sets and the CUDA
// thread blocks, which run on the host, must match a reference implementation of the formats bit
// for bit. Out-of-bounds writes are detected.
#include "kernels/quantization/integer_blocks.h"
#include "unit/kernels/device_elements.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

using BlockLanes = HostLanes<quantizer_lanes>;
using Codes = Bytes<std::int8_t>;

struct Case {
  int bits;
  bool asymmetric;
  std::int64_t groups, group;
  GroupOrder order;
  Array from;

  std::int64_t width() const { return asymmetric ? 2 : 1; }
  QuantizeJob job(Codes& to, Array& params) {
    return {from.data(),
            from.element(),
            bits,
            asymmetric,
            group,
            to.data(),
            static_cast<float*>(params.data()),
            order};
  }
};

Case random_case(Random& random, bool special) {
  const int bits = random.once_in(2) ? 8 : 4;
  std::int64_t groups = random.whole(0, 6), group = random.length();
  if (bits == 4) group = group / 2 * 2;
  GroupOrder order;
  if (random.once_in(2)) {
    order = {random.whole(1, 2), random.whole(1, 2), random.whole(1, 2), random.whole(1, 3), true};
    groups = order.contiguous * order.slices * order.nodes * order.devices;
  }
  Case out{bits,   random.once_in(2),
           groups, group,
           order,  Array(random.element(), groups * group, random.offset())};
  const double far = random.once_in(3) ? 100 : 0;
  // Each input is one of two adjacent floats, whose midpoint is not representable. The codes are
  // therefore clamped at both ends.
  const bool near = random.once_in(8);
  for (std::int64_t i = 0; i < out.from.size(); ++i) {
    if (near)
      out.from.set(i, 1 + static_cast<double>(random.whole(1, 2)) * 0x1p-23);
    else
      out.from.set(i, special && random.once_in(30) ? random.special() : far + random.value(-3, 1));
  }
  return out;
}

struct Result {
  std::vector<std::int8_t> codes;
  Array params;
};

void expect_same(const Result& ours, const Result& expected, const std::string& what) {
  ASSERT_EQ(ours.codes, expected.codes) << what;
  op_tests::expect_same(ours.params, expected.params, what + " parameters");
}

template <typename Run>
Result made_by(Case& arguments, const Run& run) {
  Codes to(arguments.from.size() * arguments.bits / 8, 3);
  Array params(Element::f32, arguments.groups * arguments.width(), 1);
  run(arguments.job(to, params));
  EXPECT_TRUE(to.guards_whole());
  return {to.values(), params};
}

Result quantized(Isa isa, Case& arguments) {
  return made_by(arguments,
                 [&](const QuantizeJob& job) { quantize_groups(isa, job, 0, arguments.groups); });
}

/// Quantizes each group in two parts, starting with the second, as when threads share a large
/// group.
Result quantized_in_parts(Isa isa, Case& arguments) {
  return made_by(arguments, [&](const QuantizeJob& job) {
    for (std::int64_t group = 0; group < arguments.groups; ++group) {
      const std::int64_t begin = group * arguments.group, end = begin + arguments.group,
                         half = begin + arguments.group / 4 * 2;
      const GroupRange range =
          joined(range_of_part(isa, job, half, end), range_of_part(isa, job, begin, half));
      const GroupScale scale =
          group_scale(range, arguments.bits, arguments.asymmetric, arguments.group == 0);
      quantize_part(isa, job, scale, group, half, end);
      quantize_part(isa, job, scale, group, begin, half);
    }
  });
}

Result quantized_on_device(Case& arguments, bool backwards) {
  return made_by(arguments, [&](const QuantizeJob& job) {
    std::vector<GroupRange> lanes(quantizer_lanes);
    for (std::int64_t group = 0; group < arguments.groups; ++group)
      with_device_type(arguments.from.element(), [&](auto type) {
        quantize_group_block<decltype(type)>(job, group, lanes.data(), BlockLanes{backwards});
      });
  });
}

// Fails if the codes of two kernels differ, or depend on the order of threads or on how a group is
// divided. Covers tails, 4-bit packing and the order of groups.
TEST(Quantizer, AllKernelsProduceTheSameCodes) {
  Random random(7);
  for (int i = 0; i < rounds(400); ++i) {
    Case arguments = random_case(random, random.once_in(2));
    const Result expected = quantized(Isa::scalar, arguments);
    for (const Isa isa : sets()) {
      expect_same(quantized(isa, arguments), expected, to_string(isa));
      if (arguments.group > 0)
        expect_same(quantized_in_parts(isa, arguments), expected,
                    std::string(to_string(isa)) + " parts");
    }
    expect_same(quantized_on_device(arguments, false), expected, "device");
    expect_same(quantized_on_device(arguments, true), expected, "device, backwards");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

int code_in(const std::vector<std::int8_t>& codes, int bits, std::int64_t i) {
  if (bits == 8) return codes[static_cast<std::size_t>(i)];
  const int byte = static_cast<std::uint8_t>(codes[static_cast<std::size_t>(i / 2)]);
  const int code = i % 2 == 0 ? byte / 16 : byte % 16;
  return code >= 8 ? code - 16 : code;
}

// Fails if a scale, offset, range or rounding is wrong, or int4 is packed in the wrong order.
TEST(Quantizer, CodesFollowTheFormat) {
  Random random(8);
  for (int i = 0; i < rounds(200); ++i) {
    Case arguments = random_case(random, false);
    arguments.order = {};
    const Result made = quantized(sets().back(), arguments);
    const float levels = arguments.bits == 8 ? 256 : 16;
    for (std::int64_t group = 0; group < arguments.groups && arguments.group > 0; ++group) {
      float low = INFINITY, high = -INFINITY, most = 0;
      const auto value = [&](std::int64_t k) {
        return static_cast<float>(arguments.from.get(group * arguments.group + k));
      };
      for (std::int64_t k = 0; k < arguments.group; ++k) {
        low = std::min(low, value(k));
        high = std::max(high, value(k));
        most = std::max(most, std::abs(value(k)));
      }
      // Computed as in DeepSpeed's kernels. These inputs cause no overflow.
      const float scale = arguments.asymmetric ? (high == low ? 1 : levels / (high - low))
                                               : (most == 0 ? 1 : levels / (2 * most));
      const float offset = arguments.asymmetric ? (high + low) / 2 : 0;
      EXPECT_EQ(made.params.get(group * arguments.width()), 1 / scale);
      if (arguments.asymmetric) {
        EXPECT_EQ(made.params.get(group * 2 + 1), offset);
      }
      for (std::int64_t k = 0; k < arguments.group; ++k) {
        const float code =
            std::clamp(std::nearbyint((value(k) - offset) * scale), -levels / 2, levels / 2 - 1);
        ASSERT_EQ(code_in(made.codes, arguments.bits, group * arguments.group + k), code)
            << k << " of " << arguments.group;
      }
    }
  }
}

Array dequantized(Isa isa, const Case& arguments, Result& made, Element element, std::size_t offset,
                  bool past) {
  Array out(element, arguments.groups * arguments.group, offset);
  const DequantizeJob job{made.codes.data(),
                          arguments.bits,
                          arguments.asymmetric,
                          static_cast<float*>(made.params.data()),
                          arguments.group,
                          out.data(),
                          element,
                          past};
  // Dequantizes the output in two parts, as two threads would. The first part ends within a group.
  const std::int64_t half = out.size() / 4 * 2;
  dequantize_part(isa, job, half, out.size());
  dequantize_part(isa, job, 0, half);
  return out;
}

// Fails if a code is read from the wrong place, a group uses the parameters of its neighbor, or
// results change with non-temporal stores or in the device code.
TEST(Quantizer, AllKernelsDequantizeToTheSameValues) {
  Random random(9);
  for (int i = 0; i < rounds(300); ++i) {
    Case arguments = random_case(random, random.once_in(2));
    arguments.order = {};
    Result made = quantized(Isa::scalar, arguments);
    const Element element = random.element();
    const std::size_t offset = random.once_in(2) ? 0 : random.offset();
    const Array expected = dequantized(Isa::scalar, arguments, made, element, offset, false);
    for (std::int64_t k = 0; k < expected.size(); ++k) {
      const std::int64_t at = k / arguments.group * arguments.width();
      const double value =
          std::fma(static_cast<float>(code_in(made.codes, arguments.bits, k)),
                   static_cast<float>(made.params.get(at)),
                   arguments.asymmetric ? static_cast<float>(made.params.get(at + 1)) : 0.0F);
      const double wanted = rounded(value, element);
      ASSERT_TRUE(std::isnan(wanted) ? std::isnan(expected.get(k)) : expected.get(k) == wanted)
          << k << " " << value;
    }
    for (const Isa isa : sets())
      for (const bool past : {false, true})
        op_tests::expect_same(dequantized(isa, arguments, made, element, offset, past), expected,
                              to_string(isa));
    Array device(element, expected.size(), offset);
    const DequantizeJob job{made.codes.data(),
                            arguments.bits,
                            arguments.asymmetric,
                            static_cast<float*>(made.params.data()),
                            arguments.group,
                            device.data(),
                            element,
                            false};
    with_device_type(element, [&](auto type) {
      for (std::int64_t k = device.size(); k-- > 0;) dequantize_element<decltype(type)>(job, k);
    });
    op_tests::expect_same(device, expected, "device");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if a NaN or infinity in a gradient is dequantized to a finite number, which would hide an
// overflow. Also fails if such a value affects another group.
TEST(Quantizer, NonFiniteValuesAffectOnlyTheirGroup) {
  for (const double bad : {std::nan(""), -std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (const int bits : {8, 4})
      for (const bool asymmetric : {false, true})
        for (const std::int64_t place : {0, 17, 39})
          for (const Isa isa : sets()) {
            Case arguments{bits, asymmetric, 3, 40, {}, Array(Element::fp16, 120, 0)};
            for (std::int64_t i = 0; i < 120; ++i)
              arguments.from.set(i, i == 40 + place ? bad : static_cast<double>(i % 40) - 20);
            Result made = quantized(isa, arguments);
            const Array read = dequantized(isa, arguments, made, Element::f32, 0, false);
            for (std::int64_t i = 0; i < 120; ++i) {
              if (i / 40 == 1)
                EXPECT_TRUE(std::isnan(read.get(i))) << i;
              else
                EXPECT_NEAR(read.get(i), arguments.from.get(i), bits == 8 ? 0.2 : 3) << i;
            }
          }
}

// Fails if intermediate results overflow for values near the limits of float, or subnormal values
// are not dequantized to approximately zero.
TEST(Quantizer, LimitsOfFloat) {
  constexpr double most = std::numeric_limits<float>::max();
  for (const Isa isa : sets())
    for (const bool asymmetric : {false, true}) {
      Case large{8, asymmetric, 1, 4, {}, Array(Element::f32, 4, 0)};
      for (const auto& [i, value] : {std::pair(0, -most), {1, most}, {2, 0.0}, {3, most / 2}})
        large.from.set(i, value);
      Result made = quantized(isa, large);
      const Array read = dequantized(isa, large, made, Element::f32, 0, false);
      for (std::int64_t i = 0; i < 4; ++i)
        EXPECT_NEAR(read.get(i) / most, large.from.get(i) / most, 0.008);
      Case small{8, asymmetric, 1, 4, {}, Array(Element::f32, 4, 0)};
      for (std::int64_t i = 0; i < 4; ++i)
        small.from.set(i, (static_cast<double>(i) - 1) * 0x1p-149);
      Result zeros = quantized(isa, small);
      const Array near = dequantized(isa, small, zeros, Element::f32, 0, false);
      for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(near.get(i), small.from.get(i), 0x1p-147);
    }
}

struct Reduction {
  int bits;
  bool asymmetric;
  std::int64_t tensors, size, in_group, group;
  std::vector<std::int8_t> from;
  Array from_params;

  template <typename Run>
  Result made_by(const Run& run) {
    Codes to(size * bits / 8, 5);
    Array params(Element::f32, group == 0 ? 0 : size / group * (asymmetric ? 2 : 1), 0);
    run(ReduceJob{from.data(), static_cast<float*>(from_params.data()), tensors, size, in_group,
                  bits, asymmetric, group, to.data(), static_cast<float*>(params.data())});
    EXPECT_TRUE(to.guards_whole());
    return {to.values(), params};
  }
};

Reduction random_reduction(Random& random) {
  const int bits = random.once_in(2) ? 8 : 4;
  const bool asymmetric = random.once_in(2);
  const std::int64_t tensors = random.whole(1, 5), unit = random.whole(1, 40) * 2;
  const std::int64_t in_group = unit * random.whole(1, 3), groups = random.whole(1, 4);
  // Occasionally, choose groups that are larger than the scratch memory.
  const std::int64_t size =
      in_group * groups * unit * (random.once_in(20) ? 2 + reduce_scratch / unit : 1);
  const std::int64_t group = random.once_in(2) ? size : in_group * groups;
  const std::int64_t in_groups = tensors * size / in_group;
  Reduction out{
      bits,     asymmetric, tensors, size,
      in_group, group,      {},      Array(Element::f32, in_groups * (asymmetric ? 2 : 1), 0)};
  for (std::int64_t i = 0; i < tensors * size * bits / 8; ++i)
    out.from.push_back(static_cast<std::int8_t>(random.whole(-128, 127)));
  for (std::int64_t i = 0; i < out.from_params.size(); ++i)
    out.from_params.set(i, random.value(-2, 0));
  return out;
}

// Fails if kernels add tensors in different orders, use the wrong parameters, or give wrong results
// for a group that is larger than the scratch memory.
TEST(Quantizer, AllKernelsReduceToTheSameCodes) {
  Random random(10);
  for (int i = 0; i < 25; ++i) {
    Reduction arguments = random_reduction(random);
    const std::int64_t groups = arguments.size / arguments.group,
                       width = arguments.asymmetric ? 2 : 1;
    std::vector<float> scratch(reduce_scratch);
    // The expected sum, which is quantized like any other tensor.
    Case sum{arguments.bits,
             arguments.asymmetric,
             groups,
             arguments.group,
             {},
             Array(Element::f32, arguments.size, 0)};
    for (std::int64_t k = 0; k < arguments.size; ++k) {
      float all = 0;
      for (std::int64_t tensor = 0; tensor < arguments.tensors; ++tensor) {
        const std::int64_t at = (tensor * arguments.size + k) / arguments.in_group * width;
        const float value = std::fma(
            static_cast<float>(
                code_in(arguments.from, arguments.bits, tensor * arguments.size + k)),
            static_cast<float>(arguments.from_params.get(at)),
            arguments.asymmetric ? static_cast<float>(arguments.from_params.get(at + 1)) : 0.0F);
        all = tensor == 0 ? value : all + value;
      }
      sum.from.set(k, all);
    }
    const Result expected = quantized(Isa::scalar, sum);
    for (const Isa isa : sets())
      expect_same(arguments.made_by([&](const ReduceJob& job) {
        reduce_groups(isa, job, 0, groups, scratch.data());
      }),
                  expected, to_string(isa));
    if (arguments.size <= 20000)
      expect_same(arguments.made_by([&](const ReduceJob& job) {
        std::vector<GroupRange> lanes(quantizer_lanes);
        for (std::int64_t group = groups; group-- > 0;)
          reduce_group_block(job, group, lanes.data(), BlockLanes{true});
      }),
                  expected, "device");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
