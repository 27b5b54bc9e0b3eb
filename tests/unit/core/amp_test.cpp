#include "anyaccel/amp.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>

#include <limits>

#include "anyaccel/accelerator.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"

namespace anyaccel {
namespace {

using test::mock_traits;
using test::MockBackend;

// Fails if autocast does not lower the precision within its scope, or still lowers it afterwards.
TEST(Amp, AutocastLowersAndRestores) {
  const Accelerator accelerator(std::make_shared<MockBackend>(mock_traits("mock")));
  const auto a = at::rand({4, 4});
  {
    const auto scope = accelerator.autocast(at::kBFloat16);
    EXPECT_EQ(at::mm(a, a).scalar_type(), at::kBFloat16);
    {
      const auto off = accelerator.amp().autocast(at::kBFloat16, false);
      EXPECT_EQ(at::mm(a, a).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(at::mm(a, a).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::mm(a, a).scalar_type(), at::kFloat);
  EXPECT_ERROR(accelerator.autocast(at::kFloat8_e5m2), unsupported, "float8_e5m2");
}

// Fails if gradients are not divided by the scale, or an infinity or NaN is not detected.
TEST(Amp, UnscaleFindsOverflow) {
  GradScaler scaler({.init_scale = 4.0});
  EXPECT_EQ(scaler.scale(at::full({}, 2.0)).item<double>(), 8.0);
  std::vector<at::Tensor> gradients{at::full({3}, 8.0), at::full({2}, -4.0)};
  EXPECT_TRUE(scaler.unscale_(gradients));
  EXPECT_EQ(gradients[0][0].item<double>(), 2.0);
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    gradients[1][1] = bad;
    EXPECT_FALSE(scaler.unscale_(gradients));
  }
}

// Fails if large but finite float16 gradients count as overflow, because a sum of their squares
// would overflow.
TEST(Amp, LargeHalfGradientsAreFinite) {
  GradScaler scaler({.init_scale = 2.0});
  EXPECT_TRUE(scaler.unscale_({at::full({1000}, 60000.0, at::kHalf)}));
}

// Fails if the scale grows too soon, or does not back off after an overflow.
TEST(Amp, ScaleGrowsAndBacksOff) {
  GradScaler scaler({.init_scale = 8.0, .growth_interval = 2});
  scaler.update(true);
  EXPECT_EQ(scaler.get_scale(), 8.0);
  scaler.update(true);
  EXPECT_EQ(scaler.get_scale(), 16.0);
  scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.get_scale(), 8.0);
  EXPECT_EQ(scaler.growth_tracker(), 0);
  GradScaler other;
  other.load_state(8.0, 1);
  EXPECT_EQ(other.get_scale(), 8.0);
  GradScaler off({.enabled = false});
  EXPECT_EQ(off.scale(at::full({}, 2.0)).item<double>(), 2.0);
  EXPECT_ERROR(GradScaler({.growth_factor = 0.5}), invalid_argument, "growth_factor");
}

}  // namespace
}  // namespace anyaccel
