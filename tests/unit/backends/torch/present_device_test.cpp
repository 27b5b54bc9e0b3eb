// Tests devices that another package has registered with torch, without a backend for them.
#include "core/present_device.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_has_compatible_shallow_copy_type.h>
#include <ATen/ops/empty.h>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "core/out_of_memory.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"
#include "unit/support/scoped_env.h"
#include "unit/support/test_device.h"

namespace anyaccel {
namespace {

using test::ScopedEnv;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Fails if a device type is reported before a package registers it.
TEST(PresentDevice, NothingWithoutAPackage) {
  EXPECT_FALSE(present_device());
  EXPECT_THAT(registered_backends(), Not(Contains("privateuseone")));
}

// Fails if the program silently uses the CPU although torch has another device, or if the report
// does not say which backend drives the device and why.
TEST(PresentDevice, IsChosenWithoutABackend) {
  const ScopedEnv env("DS_ACCELERATOR", nullptr);
  EXPECT_THAT(registered_backends(), Not(Contains("foreign")));
  test::install_test_device("foreign");
  EXPECT_EQ(get_accelerator().name(), "foreign");
  EXPECT_EQ(get_accelerator().device_count(), 2);
  EXPECT_EQ(get_accelerator().device_name(1), "foreign:1");
  EXPECT_EQ(get_accelerator().communication_backend_name(), "staged");
  EXPECT_THAT(detection().reason, HasSubstr("no backend is registered for this device type"));
}

// Fails if DS_ACCELERATOR does not accept the device's name.
TEST(PresentDevice, IsChosenByName) {
  test::install_test_device("foreign");
  const ScopedEnv env("DS_ACCELERATOR", "foreign");
  EXPECT_EQ(get_accelerator().name(), "foreign");
  const auto x = at::empty({2}, at::TensorOptions().device(get_accelerator().torch_device(0)));
  EXPECT_TRUE(get_accelerator().on_accelerator(x));
  EXPECT_EQ(x.device(), at::Device("foreign:0"));
}

// Fails if a device that does not answer queries for its memory and dtypes cannot be described, or
// if the error does not say what is missing.
TEST(PresentDevice, SurvivesMissingQueries) {
  auto& device = test::install_test_device("foreign");
  device.minimal_allocator = device.minimal_guard = true;
  const ScopedEnv env("DS_ACCELERATOR", "foreign");
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.device_properties(0).name, "foreign:0");
  EXPECT_EQ(accelerator.device_properties(0).total_memory, -1);
  EXPECT_TRUE(accelerator.dtype_support(c10::kFloat).storable);
  EXPECT_ERROR(accelerator.memory_info(), unsupported, "its allocator does not implement it");
  EXPECT_ERROR(accelerator.memory_allocated(), unsupported, "its allocator does not implement it");
}

// Fails if a device without these kernels cannot use staged collectives, or if moving a module to
// it replaces the parameters that an optimizer holds.
TEST(PresentDevice, GetsMissingKernels) {
  auto& device = test::install_test_device("foreign");
  device.minimal_guard = true;  // cannot synchronize a stream
  const auto host = at::empty({2});
  const auto tensor = at::empty({2}, at::TensorOptions().device("foreign:0"));
  EXPECT_FALSE(at::_has_compatible_shallow_copy_type(host, tensor));
  const ScopedEnv env("DS_ACCELERATOR", "foreign");
  const auto stream = get_accelerator().current_stream(0);
  EXPECT_TRUE(at::_has_compatible_shallow_copy_type(host, tensor));
  EXPECT_TRUE(at::_has_compatible_shallow_copy_type(tensor, host));
  EXPECT_FALSE(at::_has_compatible_shallow_copy_type(at::empty({2}, at::kMeta), tensor));
  const int awaited = device.events_awaited;
  tensor.record_stream(stream.unwrap());
  EXPECT_EQ(device.events_awaited, awaited + 1);
}

// Fails if a failed allocation of a device that does not throw torch's error is not recognized.
TEST(PresentDevice, RecognizesAPlainAllocationFailure) {
  test::install_test_device("foreign").minimal_allocator = true;
  const ScopedEnv env("DS_ACCELERATOR", "foreign");
  const auto like = at::empty({0}, at::TensorOptions().device(get_accelerator().torch_device(0)));
  try {
    at::empty({std::int64_t{1} << 40}, like.options());
    FAIL() << "the allocation succeeded";
  } catch (const c10::Error& error) {
    EXPECT_TRUE(is_out_of_memory(error));
  }
}

// Fails if a backend that is registered for the device type, under the same or another name, does
// not replace the generic backend.
TEST(PresentDevice, GivesWayToABackend) {
  test::install_test_device("foreign");
  EXPECT_THAT(registered_backends(), Contains("foreign"));
  auto traits = test::mock_traits("vendor");
  traits.device_type = "foreign";
  register_backend({.traits = traits,
                    .create = [traits] { return std::make_shared<sdk::TorchBackend>(traits); }});
  EXPECT_THAT(registered_backends(), Not(Contains("foreign")));
  register_backend({.traits = test::mock_traits("foreign"), .create = [] { return nullptr; }});
  EXPECT_THAT(registered_backends(), Contains("foreign"));
}

// Fails if a device type with a vendor backend is also given to the generic backend.
TEST(PresentDevice, KnownDeviceTypesKeepTheirBackend) {
  if (registered_backends().size() < 10) GTEST_SKIP() << "this build lacks some backends";
  test::install_test_device("npu");
  int count = 0;
  for (const auto& name : registered_backends()) count += name == "npu" ? 1 : 0;
  EXPECT_EQ(count, 1);
  EXPECT_THAT(registered_backend("npu").traits.vendor, "Huawei");
}

}  // namespace
}  // namespace anyaccel
