// Tests the generic backend, without a vendor backend, on a test device that replaces PrivateUse1.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/torch_backend.h"
#include "unit/support/expect_error.h"
#include "unit/support/test_device.h"

namespace anyaccel {
namespace {

sdk::Traits plain_traits() {
  sdk::Traits traits;
  traits.name = "plain";
  traits.device_type = "plaindev";
  traits.communication_backend = "gloo";
  return traits;
}

class TorchBackendTest : public testing::Test {
 protected:
  test::TestDevice& device_ = test::install_test_device("plaindev");
  Accelerator accelerator_{std::make_shared<sdk::TorchBackend>(plain_traits())};
};

// Fails if reading names, counts or the current device initializes the device.
TEST_F(TorchBackendTest, GettersDoNotInitializeTheDevice) {
  EXPECT_TRUE(accelerator_.is_available());
  EXPECT_EQ(accelerator_.device_count(), 2);
  EXPECT_EQ(accelerator_.device_name(1), "plaindev:1");
  EXPECT_EQ(accelerator_.current_device_name(), "plaindev:0");
  accelerator_.empty_cache();
  EXPECT_FALSE(accelerator_.is_current_stream_capturing());
  EXPECT_FALSE(device_.initialized);
  EXPECT_EQ(device_.cache_emptied, 0);
  accelerator_.set_device(0);
  EXPECT_TRUE(device_.initialized);
  accelerator_.empty_cache();
  EXPECT_EQ(device_.cache_emptied, 1);
}

// Fails if a seed set before the device is initialized is lost.
TEST_F(TorchBackendTest, EarlySeedIsApplied) {
  accelerator_.random().manual_seed(42);
  EXPECT_FALSE(device_.initialized);
  accelerator_.set_device(0);
  EXPECT_EQ(accelerator_.default_generator(1).current_seed(), 42U);
}

// Fails if a stream belongs to the wrong device, or devices share a current stream.
TEST_F(TorchBackendTest, StreamsBelongToDevices) {
  const auto zero = accelerator_.Stream(0);
  const auto one = accelerator_.Stream(1, -1);
  EXPECT_EQ(one.device_index(), 1);
  EXPECT_FALSE(zero == one);
  accelerator_.set_stream(zero);
  {
    const auto guard = accelerator_.stream(one);
    EXPECT_EQ(accelerator_.current_device(), 1);
    EXPECT_EQ(accelerator_.current_stream(), one);
    EXPECT_EQ(accelerator_.current_stream(0), zero);
  }
  EXPECT_EQ(accelerator_.current_device(), 0);
  EXPECT_EQ(accelerator_.current_stream(), zero);
  EXPECT_EQ(accelerator_.current_stream(1), accelerator_.default_stream(1));
  EXPECT_NE(one.native_handle(), nullptr);
  EXPECT_TRUE(one.query());
  const Stream host(c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCPU)), 0);
  EXPECT_ERROR(accelerator_.set_stream(host), invalid_argument, "a different accelerator");
}

// Fails if the generic backend computes an elapsed time with an event that was not recorded or was
// created without timing.
TEST_F(TorchBackendTest, EventRules) {
  auto timed = accelerator_.Event(true);
  auto end = accelerator_.Event(true);
  auto plain = accelerator_.Event();
  EXPECT_TRUE(timed.query());
  timed.synchronize();
  EXPECT_ERROR(timed.elapsed_time(end), invalid_state, "not recorded");
  const auto stream = accelerator_.current_stream();
  timed.record(stream);
  plain.record(stream);
  const auto copy = end;
  end.record(stream);
  EXPECT_GE(timed.elapsed_time(copy), 0.0);
  EXPECT_ERROR(timed.elapsed_time(plain), invalid_state, "without timing");
}

// Fails if pinned memory does not come from the device's host allocator, or views do not count as
// pinned.
TEST_F(TorchBackendTest, PinsHostMemory) {
  const auto tensor = at::arange(6).reshape({2, 3});
  const auto pinned = accelerator_.pin_memory(tensor);
  EXPECT_NE(pinned.data_ptr(), tensor.data_ptr());
  EXPECT_TRUE(pinned.equal(tensor));
  EXPECT_TRUE(accelerator_.is_pinned(pinned));
  EXPECT_TRUE(accelerator_.is_pinned(pinned[1]));
  EXPECT_FALSE(accelerator_.is_pinned(tensor));
  EXPECT_EQ(accelerator_.pin_memory(pinned).data_ptr(), pinned.data_ptr());
  const auto turned = accelerator_.pin_memory(pinned.t());  // contiguous copy, also pinned
  EXPECT_TRUE(accelerator_.is_pinned(turned) && turned.is_contiguous());
  EXPECT_TRUE(turned.equal(tensor.t()));
  EXPECT_TRUE(accelerator_.is_pinned(accelerator_.pin_empty(tensor, {7})));
  const auto back = accelerator_.unpin_memory(pinned);
  EXPECT_FALSE(accelerator_.is_pinned(back));
  EXPECT_TRUE(back.equal(tensor));
  EXPECT_FALSE(accelerator_.register_host_memory(tensor.data_ptr(), 8));
}

// Fails if a torch exception reaches the caller without an error code.
TEST_F(TorchBackendTest, TorchErrorsAreTyped) {
  struct Failing : sdk::TorchBackend {
    using TorchBackend::TorchBackend;
    MemoryInfo memory_info(DeviceIndex index) const override {
      TORCH_CHECK_WITH(OutOfMemoryError, index != 0, "device 0 is full");
      TORCH_CHECK_NOT_IMPLEMENTED(false, "device 1 cannot say");
    }
    void synchronize(DeviceIndex) override { TORCH_CHECK(false, "a kernel failed"); }
  };
  const Accelerator failing(std::make_shared<Failing>(plain_traits()));
  EXPECT_ERROR(failing.memory_info(0), out_of_memory, "device 0 is full");
  EXPECT_ERROR(failing.memory_info(1), unsupported, "device 1 cannot say");
  EXPECT_ERROR(failing.synchronize(0), device_error, "[synchronize] a kernel failed");
}

// Fails if the supported dtypes do not match the traits.
TEST_F(TorchBackendTest, DtypesFollowTraits) {
  EXPECT_TRUE(accelerator_.dtype_support(c10::kDouble).computable);
  auto traits = plain_traits();
  traits.fp64 = false;
  const Accelerator single(std::make_shared<sdk::TorchBackend>(traits));
  EXPECT_FALSE(single.dtype_support(c10::kDouble).storable);
  EXPECT_TRUE(single.dtype_support(c10::kFloat).fast);
}

#if ANYACCEL_TEST_GRAPHS
// Fails if the graph is not torch's graph for this device type, or the capture uses the default
// stream.
TEST_F(TorchBackendTest, GraphsReplay) {
  const auto graph = accelerator_.create_graph();
  const auto before = accelerator_.current_stream();
  {
    auto capture = accelerator_.capture_to_graph(graph, GraphPool{3, 4});
    EXPECT_FALSE(accelerator_.current_stream() == before);
    capture.end();
  }
  EXPECT_EQ(accelerator_.current_stream(), before);
  EXPECT_EQ(graph.pool(), (GraphPool{3, 4}));
  accelerator_.replay_graph(graph);
  accelerator_.replay_graph(graph);
  EXPECT_EQ(device_.graph_replays, 2);
}
#endif

// Fails if a backend can be created for a type that this LibTorch does not support, or the error
// lacks the reason.
TEST(TorchBackend, RejectsUnsupportedDeviceTypes) {
  auto traits = plain_traits();
  traits.device_type = "nosuchtype";
  EXPECT_ERROR(sdk::TorchBackend(traits), unavailable, "nosuchtype");
  traits.device_type = "xla";
  EXPECT_ERROR(sdk::TorchBackend(traits), unavailable, "xla");
  EXPECT_EQ(sdk::probe_torch_device(traits).device_count, 0);
  EXPECT_THAT(sdk::probe_torch_device(traits).reason, testing::HasSubstr("does not support"));
}

// Fails if the hardware count is ignored, or devices that torch does not support count as
// available.
TEST(TorchBackend, ProbePrefersTheHardwareCount) {
  auto traits = plain_traits();
  traits.probe = []() noexcept { return sdk::Probe{7, "a count without torch"}; };
  EXPECT_EQ(sdk::probe_torch_device(traits).device_count, 0);
  test::install_test_device("plaindev", 2);
  EXPECT_EQ(sdk::probe_torch_device(traits).device_count, 7);
  traits.probe = []() noexcept { return sdk::Probe{0, "none seen"}; };
  EXPECT_EQ(sdk::probe_torch_device(traits).device_count, 2);
  test::TestDevice::get().count = 0;
  EXPECT_EQ(sdk::probe_torch_device(traits).device_count, 0);
  EXPECT_EQ(sdk::probe_torch_device(traits).reason, "none seen");
}

}  // namespace
}  // namespace anyaccel
