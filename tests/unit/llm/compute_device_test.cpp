#include "llm/support/compute_device.h"

#include <gtest/gtest.h>

#include "anyaccel/accelerator.h"
#include "unit/support/scoped_env.h"
#include "unit/support/test_device.h"

namespace anyaccel::llm {
namespace {

// Fails if a model is created on a device that was not initialized, which ends with an internal
// error of torch on devices that need it.
TEST(ComputeDevice, IsInitialized) {
  auto& device = test::install_test_device("foreign");
  const test::ScopedEnv env("DS_ACCELERATOR", "foreign");
  EXPECT_EQ(get_accelerator().torch_device().str(), "foreign:0");
  EXPECT_FALSE(device.initialized);
  EXPECT_EQ(compute_device().str(), "foreign:0");
  EXPECT_TRUE(device.initialized);
}

}  // namespace
}  // namespace anyaccel::llm
