// Random calls and comparisons, shared by tests that run layers on a device and on the host.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <gtest/gtest.h>

#include <random>

namespace anyaccel::ops {

class Chance {
 public:
  explicit Chance(unsigned seed) : engine_(seed) {}
  std::int64_t whole(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool once_in(int n) { return whole(1, n) == 1; }

 private:
  std::mt19937 engine_;
};

/// Tolerance for results whose products are rounded to `type` and summed in float.
inline double error_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-11 : type == at::kFloat ? 1e-4 : type == at::kHalf ? 4e-3 : 3e-2;
}

/// Expects |ours - want| <= error * (1 + |want|), and equal shape, dtype and contiguity.
inline void expect_near(const char* what, const at::Tensor& ours, const at::Tensor& want,
                        double error) {
  ASSERT_EQ(ours.sizes(), want.sizes()) << what;
  ASSERT_EQ(ours.scalar_type(), want.scalar_type()) << what;
  ASSERT_EQ(ours.is_contiguous(), want.is_contiguous()) << what;
  if (ours.numel() == 0) return;
  const at::Tensor one = ours.to(at::kDouble), two = want.to(at::kDouble);
  const double off = at::max(at::abs(one - two) / (at::abs(two) + 1)).item<double>();
  EXPECT_LE(off, error) << what << " of " << ours.scalar_type() << " " << ours.sizes();
}

}  // namespace anyaccel::ops
