// Parameters for tests of optimizers.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <vector>

namespace anyaccel::tests {

using Params = std::vector<at::Tensor>;

/// Creates two parameters. Every call returns the same values.
inline Params make_params() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(3);
  Params out;
  for (const auto size : {70, 5}) out.push_back(at::randn({size}).requires_grad_());
  return out;
}

inline void expect_close(const Params& got, const Params& want) {
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(at::allclose(got[i], want[i], 1e-5, 1e-6)) << i;
}

}  // namespace anyaccel::tests
