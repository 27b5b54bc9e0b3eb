// 16-bit element types with the same conversions as CUDA's types, so that the host can run device
// code.
#pragma once

#include "unit/kernels/arrays.h"

namespace op_tests {

template <Element element>
struct DeviceHalf {
  std::uint16_t bits;

  DeviceHalf() = default;
  explicit DeviceHalf(float value)
      : bits(static_cast<std::uint16_t>(to_bits(static_cast<double>(value), element))) {}
  explicit operator float() const { return static_cast<float>(from_bits(bits, element)); }
};
using DeviceBf16 = DeviceHalf<Element::bf16>;
using DeviceFp16 = DeviceHalf<Element::fp16>;

/// Calls `call` with a value of the element's type.
template <typename Call>
void with_device_type(Element element, const Call& call) {
  if (element == Element::f32) return call(float());
  if (element == Element::bf16) return call(DeviceBf16());
  call(DeviceFp16());
}

/// Calls call(P(), G(), S()) with the types of parameters, gradients and states. With 16-bit
/// parameters, gradients and states are each float or have the parameters' type. With float
/// parameters, both are float.
template <typename Call>
void with_device_types(Element param, Element grad, Element state, const Call& call) {
  if (param == Element::f32) return call(float(), float(), float());
  with_device_type(param, [&](auto p) {
    using P = decltype(p);
    if (grad == Element::f32)
      return state == Element::f32 ? call(P(), float(), float()) : call(P(), float(), P());
    return state == Element::f32 ? call(P(), P(), float()) : call(P(), P(), P());
  });
}

/// Runs a block's threads one after the other, possibly in reverse order. Results must not depend
/// on the order.
template <int lanes>
struct HostLanes {
  bool backwards = false;
  template <typename Function>
  void operator()(const Function& function) const {
    for (int i = 0; i < lanes; ++i) function(backwards ? lanes - 1 - i : i);
  }
};

/// Bytes at any alignment, with guard bytes at both ends.
template <typename Byte>
class Bytes {
 public:
  Bytes(std::int64_t size, std::size_t offset)
      : size_(static_cast<std::size_t>(size)),
        offset_(64 + offset),
        memory_(size_ + offset_ + 64, 0x5a) {}
  Byte* data() { return memory_.data() + offset_; }
  std::vector<Byte> values() const {
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return {begin, begin + static_cast<std::ptrdiff_t>(size_)};
  }
  bool guards_whole() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < offset_ || i >= offset_ + size_) && memory_[i] != 0x5a) return false;
    return true;
  }

 private:
  std::size_t size_, offset_;
  std::vector<Byte> memory_;
};

inline void fill(Array& array, Random& random, bool positive, bool special) {
  for (std::int64_t i = 0; i < array.size(); ++i) {
    const double value = special && random.once_in(40) ? random.special() : random.value(-4, 1);
    array.set(i, positive ? std::abs(value) : value);
  }
}

inline void expect_same(const Array& ours, const Array& expected, const std::string& what) {
  for (std::int64_t i = 0; i < ours.size(); ++i)
    ASSERT_TRUE(ours.same(i, expected)) << what << " element " << i << " of " << ours.size() << ": "
                                        << ours.get(i) << " and " << expected.get(i);
  EXPECT_TRUE(ours.guards_whole()) << what;
}

}  // namespace op_tests
