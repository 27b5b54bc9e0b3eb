#include "anyaccel/accelerator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"

namespace anyaccel {
namespace {

using test::mock_traits;
using test::MockBackend;

class AcceleratorTest : public testing::Test {
 protected:
  std::shared_ptr<MockBackend> backend_ = std::make_shared<MockBackend>(mock_traits("mock"), 3);
  Accelerator accelerator_{backend_};
};

// Fails if the accelerator's flags do not match its traits.
TEST_F(AcceleratorTest, FlagsComeFromTraits) {
  EXPECT_FALSE(accelerator_.is_synchronized_device());
  EXPECT_FALSE(accelerator_.use_host_timers());
  EXPECT_EQ(accelerator_.communication_backend_name(), "gloo");
  EXPECT_EQ(accelerator_.name(), "mock");
  EXPECT_TRUE(accelerator_.is_available());
}

// Fails if an out-of-range device index is accepted, or wraps at 256 like torch's 8-bit index.
TEST_F(AcceleratorTest, DeviceIndexOutOfRange) {
  auto traits = mock_traits("mock");
  traits.indexed_names = true;
  Accelerator accelerator(std::make_shared<MockBackend>(traits, 3));
  accelerator.set_device(2);
  EXPECT_EQ(accelerator.current_device(), 2);
  for (const DeviceIndex bad : {-1, 3, 256, 1 << 20}) {
    EXPECT_ERROR(accelerator.set_device(bad), invalid_argument, "got " + std::to_string(bad));
    EXPECT_ERROR(accelerator.synchronize(bad), invalid_argument, "want 0 to 2");
    EXPECT_ERROR(accelerator.device_name(bad), invalid_argument, "device_name");
    EXPECT_ERROR(accelerator.device(bad), invalid_argument, "got " + std::to_string(bad));
  }
  EXPECT_EQ(accelerator.current_device(), 2);
}

// Fails if an out-of-range device index does not mean device 0 when device names have no index.
TEST_F(AcceleratorTest, AnyIndexIsValidWithoutIndexedNames) {
  for (const DeviceIndex rank : {-1, 3, 256, 1 << 20}) {
    accelerator_.set_device(2);
    accelerator_.set_device(rank);
    EXPECT_EQ(accelerator_.current_device(), 0);
    EXPECT_EQ(accelerator_.device_name(rank), "cpu");
    EXPECT_EQ(accelerator_.torch_device(rank), c10::Device(c10::kCPU));
    accelerator_.synchronize(rank);
    EXPECT_EQ(backend_->synchronized_, 0);
    EXPECT_EQ(accelerator_.current_stream(rank).device_index(), 0);
  }
  Accelerator none(std::make_shared<MockBackend>(mock_traits("mock"), 0));
  EXPECT_ERROR(none.set_device(0), invalid_argument, "has no devices");
}

// Fails if device names contain an index that the traits forbid, or are not valid for
// torch::Device.
TEST_F(AcceleratorTest, NamesAreValidForTorch) {
  EXPECT_EQ(accelerator_.device_name(), "cpu");
  EXPECT_EQ(accelerator_.device_name(1), "cpu");
  accelerator_.set_device(1);
  EXPECT_EQ(accelerator_.current_device_name(), "cpu");
  EXPECT_EQ(accelerator_.torch_device(1), c10::Device(c10::kCPU));
}

// Fails if the guard does not restore the device, for example after an exception.
TEST_F(AcceleratorTest, DeviceGuardRestores) {
  try {
    const auto guard = accelerator_.device(2);
    EXPECT_EQ(accelerator_.current_device(), 2);
    EXPECT_EQ(guard.original_device(), 0);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(accelerator_.current_device(), 0);
}

// Fails if an optional function that a backend lacks does not throw "unsupported".
TEST_F(AcceleratorTest, MissingFeaturesHaveCodes) {
  EXPECT_ERROR(accelerator_.create_graph(), unsupported, "graphs");
  EXPECT_ERROR(accelerator_.Event(), unsupported, "events");
  EXPECT_ERROR(accelerator_.Stream(), unsupported, "streams");
  EXPECT_ERROR(accelerator_.memory_allocated(), unsupported, "memory");
  EXPECT_ERROR(accelerator_.memory_info(), unsupported, "memory");
  EXPECT_ERROR(accelerator_.reset_peak_memory_stats(), unsupported, "memory");
  EXPECT_ERROR(accelerator_.compute_capability(), unsupported, "compute capability");
  EXPECT_FALSE(accelerator_.is_current_stream_capturing());
  EXPECT_NO_THROW(accelerator_.empty_cache());
}

// Fails if a rejected stream changes the current device.
TEST_F(AcceleratorTest, RejectedStreamChangesNothing) {
  const Stream foreign{c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kMeta, 0)), 2};
  EXPECT_ERROR(accelerator_.stream(foreign), invalid_argument, "a different accelerator");
  EXPECT_EQ(accelerator_.current_device(), 0);
}

// Fails if the default dtype table ignores the traits, or total memory is not taken from
// memory_info().
TEST_F(AcceleratorTest, MissingPropertiesHaveDefaults) {
  struct WithMemory : MockBackend {
    using MockBackend::MockBackend;
    MemoryInfo memory_info(DeviceIndex) const override { return {.free = 1, .total = 7}; }
  };
  auto traits = mock_traits("mock");
  traits.fp64 = false;
  const Accelerator accelerator(std::make_shared<WithMemory>(traits));
  EXPECT_FALSE(accelerator.dtype_support(c10::kDouble).computable);
  for (const auto& row : accelerator.dtype_table())
    EXPECT_EQ(row.support.computable && row.dtype == c10::kDouble, false);
  EXPECT_TRUE(accelerator.dtype_support(c10::kFloat).computable);
  EXPECT_EQ(accelerator.device_properties().total_memory, 7);
  EXPECT_EQ(accelerator_.device_properties().total_memory, -1);
}

// Fails if a call does not convert torch's exception into an error with a code.
TEST_F(AcceleratorTest, DeviceFailuresHaveCodes) {
  struct Lost : MockBackend {
    using MockBackend::MockBackend;
    MemoryStats memory_stats(DeviceIndex) const override {
      TORCH_CHECK(false, "the device is lost");
    }
    void reset_peak_memory_stats(DeviceIndex) override { TORCH_CHECK(false, "the device is lost"); }
    DeviceProperties properties(DeviceIndex) const override {
      TORCH_CHECK(false, "the device is lost");
    }
    Stream current_stream(DeviceIndex) const override { TORCH_CHECK(false, "the device is lost"); }
    void set_device(DeviceIndex) override { TORCH_CHECK(false, "the device is lost"); }
  };
  Accelerator accelerator(std::make_shared<Lost>(mock_traits("mock")));
  EXPECT_ERROR(accelerator.memory_allocated(), device_error,
               "[memory_allocated] the device is lost");
  EXPECT_ERROR((void)accelerator.memory_stats(), device_error, "[memory_stats]");
  EXPECT_ERROR((void)accelerator.allocator_stats(), device_error, "[allocator_stats]");
  EXPECT_ERROR(accelerator.reset_peak_memory_stats(), device_error, "[reset_peak_memory_stats]");
  EXPECT_ERROR(accelerator.device_properties(), device_error, "[device_properties]");
  EXPECT_ERROR(accelerator.current_stream(), device_error, "[current_stream]");
  EXPECT_ERROR(accelerator.set_device(1), device_error, "[set_device]");
}

// Fails if lazy_call() callbacks run before the device is initialized, or do not run exactly once.
TEST_F(AcceleratorTest, LazyCallWaitsForTheDevice) {
  backend_->initialized_ = false;
  std::string order;
  accelerator_.lazy_call([&] { order += "a"; });
  accelerator_.lazy_call([&] { order += "b"; });
  accelerator_.set_device(1);
  EXPECT_EQ(order, "");
  backend_->initialized_ = true;
  accelerator_.synchronize();
  EXPECT_EQ(order, "ab");
  accelerator_.lazy_call([&] { order += "c"; });
  accelerator_.synchronize();
  EXPECT_EQ(order, "abc");
  EXPECT_ERROR(accelerator_.lazy_call({}), invalid_argument, "empty");
}

// Fails if a callback that throws prevents the other callbacks from running.
TEST_F(AcceleratorTest, LazyCallsSurviveAnException) {
  backend_->initialized_ = false;
  std::string order;
  const auto add = [&](const char* what, bool fails) {
    accelerator_.lazy_call([&order, what, fails] {
      order += what;
      if (fails) throw std::runtime_error(std::string("failed in ") + what);
    });
  };
  add("a", true);
  add("b", false);
  add("c", true);
  add("d", false);
  backend_->initialized_ = true;
  try {
    add("e", false);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "failed in a");
  }
  EXPECT_EQ(order, "abcde");
  accelerator_.synchronize();
  EXPECT_EQ(order, "abcde") << "callbacks must run only once";
}

// Fails if a callback that queues a second callback deadlocks, or the second callback does not run.
TEST_F(AcceleratorTest, LazyCallsMayQueueOthers) {
  backend_->initialized_ = false;
  std::string order;
  accelerator_.lazy_call([&] {
    order += "a";
    accelerator_.lazy_call([&] { order += "b"; });
  });
  backend_->initialized_ = true;
  accelerator_.synchronize();
  EXPECT_EQ(order, "ab");
}

// Fails if an unknown compile backend is accepted, or the error does not list the supported ones.
TEST_F(AcceleratorTest, CompileBackend) {
  EXPECT_EQ(accelerator_.get_compile_backend(), "inductor");
  accelerator_.set_compile_backend("eager");
  EXPECT_EQ(accelerator_.get_compile_backend(), "eager");
  EXPECT_ERROR(accelerator_.set_compile_backend("nosuch"), invalid_argument, "inductor, eager");
  EXPECT_EQ(accelerator_.get_compile_backend(), "eager");
}

// Fails if range_pop() without an open range is accepted.
TEST_F(AcceleratorTest, RangesNest) {
  accelerator_.range_push("outer");
  accelerator_.range_push("inner", "domain", "category");
  accelerator_.range_pop();
  accelerator_.range_pop("domain");
  EXPECT_ERROR(accelerator_.range_pop(), invalid_state, "range_push");
}

// Fails if a visible-devices variable is not set, or the ids are joined incorrectly.
TEST_F(AcceleratorTest, VisibleDevices) {
  auto traits = mock_traits("vis");
  traits.visible_devices_envs = {"A_VISIBLE", "B_VISIBLE"};
  const Accelerator accelerator(std::make_shared<MockBackend>(traits));
  std::map<std::string, std::string> env{{"A_VISIBLE", "9"}, {"KEPT", "1"}};
  accelerator.set_visible_devices_envs(env, {"0", "GPU-12ab"});
  EXPECT_EQ(env, (std::map<std::string, std::string>{
                     {"A_VISIBLE", "0,GPU-12ab"}, {"B_VISIBLE", "0,GPU-12ab"}, {"KEPT", "1"}}));
}

// Fails if looking up a missing op returns a null builder, or the error lacks the op or the
// backend.
TEST_F(AcceleratorTest, MissingOpBuilderHasACode) {
  const auto builder = accelerator_.create_op_builder("GDSBuilder");
  ASSERT_NE(builder, nullptr);
  EXPECT_EQ(builder->class_name(), "GDSBuilder");
  EXPECT_FALSE(builder->is_compatible().compatible);
  EXPECT_THAT(builder->is_compatible().reason,
              testing::AllOf(testing::HasSubstr("GDSBuilder"), testing::HasSubstr("mock")));
  EXPECT_ERROR(builder->load(), unsupported, "GDSBuilder is not implemented on mock");
  EXPECT_EQ(builder->name(), "gds");
  EXPECT_ERROR(accelerator_.get_op_builder("Other")()->load(), unsupported,
               "Other is not implemented on mock");
}

// Fails if the error for a misspelled op does not suggest the nearest name.
TEST_F(AcceleratorTest, NearestOpBuilderIsSuggested) {
  EXPECT_THAT(accelerator_.create_op_builder("SparseAtnBuilder")->is_compatible().reason,
              testing::HasSubstr("did you mean SparseAttnBuilder?"));
  EXPECT_THAT(accelerator_.create_op_builder("cpu_adam")->is_compatible().reason,
              testing::HasSubstr("CPUAdamBuilder"));
  EXPECT_THAT(accelerator_.create_op_builder("XyzzyBuilder")->is_compatible().reason,
              testing::Not(testing::HasSubstr("did you mean")));
}

// Fails if an op that supports every backend is not available on a backend.
TEST_F(AcceleratorTest, GenericOpsSupportEveryBackend) {
  EXPECT_EQ(accelerator_.create_op_builder("UtilsBuilder")->name(), "utils");
  EXPECT_THAT(sdk::registered_op_builders("mock"), testing::Contains("UtilsBuilder"));
  EXPECT_THAT(accelerator_.create_op_builder("UtilsBuilder")->sources(),
              testing::ElementsAre(testing::EndsWith("utils/register.cpp")));
}

// Fails if a compatible backend-specific op does not take precedence over the generic op, or an
// incompatible one does.
TEST_F(AcceleratorTest, BackendSpecificOps) {
  const Accelerator other(std::make_shared<MockBackend>(mock_traits("cuda")));
  const auto is_cuda = testing::Contains(testing::EndsWith("inference/register_cuda.cpp"));
  // This op exists only for this backend, so it shows whether backend-specific ops are compatible
  // with this machine.
  const bool can = other.create_op_builder("QuantizerBuilder")->is_compatible().compatible;
  const auto sources = other.create_op_builder("DecoderInferenceBuilder")->sources();
  EXPECT_EQ(testing::Matches(is_cuda)(sources), can);
  EXPECT_TRUE(other.create_op_builder("DecoderInferenceBuilder")->is_compatible().compatible);
  EXPECT_EQ(testing::Matches(is_cuda)(
                accelerator_.create_op_builder("DecoderInferenceBuilder")->sources()),
            false);
  const auto names = sdk::registered_op_builders("cuda");
  EXPECT_EQ(std::count(names.begin(), names.end(), "DecoderInferenceBuilder"), 1);
}

// Fails if a registered builder is not found, or is available on another backend.
TEST_F(AcceleratorTest, RegisteredOpBuilderIsFound) {
  struct Fake final : sdk::OpBuilder {
    std::string class_name() const override { return "FakeBuilder"; }
    std::string name() const override { return "fake"; }
    Compatibility is_compatible() const noexcept override { return {.compatible = true}; }
    void load() override {}
  };
  sdk::register_op_builder("mock", "FakeBuilder", [] { return std::make_shared<Fake>(); });
  EXPECT_EQ(accelerator_.create_op_builder("FakeBuilder")->name(), "fake");
  EXPECT_EQ(accelerator_.get_op_builder("FakeBuilder")()->name(), "fake");
  EXPECT_THAT(sdk::registered_op_builders("mock"), testing::Contains("FakeBuilder"));
  const Accelerator other(std::make_shared<MockBackend>(mock_traits("other")));
  EXPECT_FALSE(other.create_op_builder("FakeBuilder")->is_compatible().compatible);
  EXPECT_ERROR(
      sdk::register_op_builder("mock", "FakeBuilder", [] { return std::make_shared<Fake>(); }),
      invalid_argument, "FakeBuilder on mock");
}

// Fails if a returned library folder does not exist, or the include folder lacks the headers.
TEST_F(AcceleratorTest, BuildExtensionReturnsExistingFolders) {
  const auto build = accelerator_.build_extension();
  for (const auto& folder : build.library_dirs)
    EXPECT_EQ(::access(folder.c_str(), R_OK), 0) << folder;
  EXPECT_EQ(::access((build.include_dirs.front() + "/anyaccel/accelerator.h").c_str(), R_OK), 0);
  EXPECT_FALSE(build.torch_version.empty());
}

// Fails if get_rss() does not report this process's resident memory in bytes.
TEST_F(AcceleratorTest, RssGrowsWithTheProcess) {
  const auto before = accelerator_.get_rss();
  const auto tensor = at::ones({16 << 20}, at::kByte);
  EXPECT_GE(accelerator_.get_rss() - before, 12 << 20);
}

}  // namespace
}  // namespace anyaccel
