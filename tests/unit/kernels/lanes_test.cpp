// Tests building blocks of CUDA kernels (kernels/cuda) on the host.
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/vectors.h"
#include "unit/kernels/device_elements.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

// Fails if a lane's value is skipped or counted twice, a lane gets a different result, or shared
// memory is read before all lanes have written to it.
TEST(Lanes, AllLanesGetTheSumOfTheBlock) {
  constexpr int lanes = 128;
  Random random(5);
  for (const bool backwards : {false, true}) {
    PerLane<double, lanes> sum;
    PerLane<float, lanes> greatest;
    double wanted = 0;
    float most = -1e30F;
    for (int lane = 0; lane < lanes; ++lane) {
      sum[lane] = std::round(random.between(-1000, 1000));
      greatest[lane] = static_cast<float>(random.value());
      wanted += sum[lane];
      most = std::max(most, greatest[lane]);
    }
    double shared[lanes / warp_lanes];
    float floats[lanes / warp_lanes];
    std::fill_n(shared, lanes / warp_lanes, 1e300);
    const HostLanes<lanes> each{backwards};
    join_block(each, sum, shared, Sum());
    join_block(each, greatest, floats, Greatest());
    for (int lane = 0; lane < lanes; ++lane) {
      EXPECT_EQ(sum[lane], wanted);
      EXPECT_EQ(greatest[lane], most);
    }
    greatest[77] = std::numeric_limits<float>::quiet_NaN();
    join_block(each, greatest, floats, Greatest());
    for (int lane = 0; lane < lanes; ++lane) EXPECT_TRUE(std::isnan(greatest[lane]));
  }
}

// Fails if an element is loaded into the wrong position, or a load reads past the end of the array.
TEST(Lanes, LoadsPartialVectors) {
  Random random(6);
  for (const Element element : {Element::f32, Element::bf16, Element::fp16})
    with_device_type(element, [&](auto type) {
      using T = decltype(type);
      alignas(16) T from[17];
      for (int i = 0; i < 17; ++i) from[i] = static_cast<T>(static_cast<float>(i + 1));
      for (int there = 0; there <= 9; ++there)
        for (const int offset : {0, 1}) {
          float to[8];
          load_floats<8>(from + offset, there, offset == 0, to);
          for (int i = 0; i < 8; ++i)
            EXPECT_EQ(to[i], i < there ? static_cast<float>(i + 1 + offset) : 0.0F);
        }
    });
}

}  // namespace
