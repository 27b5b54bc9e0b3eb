// Tests features that the cuda backend adds to the generic one, with a fake NVML and a fake driver.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "test_paths.h"
#include "unit/support/cuda_libtorch.h"
#include "unit/support/expect_error.h"
#include "unit/support/test_device.h"

namespace anyaccel {
namespace {

std::string fake(const char* name) {
  return std::string(ANYACCEL_BUILD_DIR) + "/lib/lib" + name + ".so";
}

// NVML orders devices by PCI bus, but CUDA lists the fastest one first. The fake NVML and the fake
// driver list the same devices in opposite orders.
constexpr const char* kSlow = "GPU-00000000-0000-0000-0000-00000000000a";
constexpr const char* kFast = "GPU-00000000-0000-0000-0000-00000000000b";

/// Replaces torch's CUDA type with a test device. Each test runs in its own process.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    ANYACCEL_SKIP_IF_TAKEN("cuda");
    setenv("ANYACCEL_DEVICE_ROOT", "/nonexistent", 1);
    setenv("ANYACCEL_NVML_LIBRARY", fake("fake_nvml").c_str(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    unsetenv("DS_ACCELERATOR");
    unsetenv("DS_ALLOW_DEPRECATED_FP16");
  }
  static void machine(int major, int minor) {
    const auto number = std::to_string(major) + " " + std::to_string(minor);
    setenv("FAKE_NVML",
           ("gpu " + std::string(kSlow) + " Slow " + number + " 100 400\n" + "gpu " + kFast +
            " Fast " + number + " 200 800\n")
               .c_str(),
           1);
    setenv("FAKE_CUDA",
           ("0000000000000000000000000000000b " + number +
            " 132\n0000000000000000000000000000000a " + number + " 40\n")
               .c_str(),
           1);
  }
  static void load_driver() {
    driver_ = dlopen(fake("fake_cuda").c_str(), RTLD_NOW);
    ASSERT_NE(driver_, nullptr) << dlerror();
  }
  static int initializations() {
    return reinterpret_cast<int (*)()>(dlsym(driver_, "fake_cuda_initializations"))();
  }
  /// Initializes the driver, as torch does.
  static void start_driver() { reinterpret_cast<int (*)(unsigned)>(dlsym(driver_, "cuInit"))(0); }

  inline static void* driver_ = nullptr;
};

// Fails if probing, counting or naming devices initializes the driver. The driver would then not
// work after a fork.
TEST_F(CudaTest, ProbingDoesNotStartTheDriver) {
  machine(9, 0);
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  load_driver();
  auto& device = test::install_test_device("cuda");
  ASSERT_EQ(detect().accelerator, "cuda");
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.device_count(), 2);
  EXPECT_TRUE(accelerator.is_available());
  EXPECT_EQ(accelerator.communication_backend_name(), "nccl");
  EXPECT_EQ(accelerator.device_properties(1).name, "Fast");
  EXPECT_EQ(accelerator.available_memory(0), 100);
  EXPECT_FALSE(accelerator.is_current_stream_capturing());
  accelerator.empty_cache();
  bool called = false;
  accelerator.lazy_call([&] { called = true; });
  EXPECT_FALSE(called);
  EXPECT_EQ(initializations(), 0);
  EXPECT_FALSE(device.initialized);
}

// Fails if devices hidden by CUDA_VISIBLE_DEVICES are detected.
TEST_F(CudaTest, HiddenDevicesStayHidden) {
  machine(9, 0);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  test::install_test_device("cuda");
  for (const auto& verdict : detect().backends) {
    if (verdict.name != "cuda") continue;
    EXPECT_FALSE(verdict.available);
    EXPECT_THAT(verdict.reason, testing::HasSubstr("CUDA_VISIBLE_DEVICES="));
  }
}

// Fails if memory is read from the NVML device with the same index instead of the one with the same
// UUID.
TEST_F(CudaTest, MatchesDevicesByUuidOnceCudaRuns) {
  machine(9, 0);
  load_driver();
  test::install_test_device("cuda");
  start_driver();
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.available_memory(0), 200);
  EXPECT_EQ(accelerator.available_memory(1), 100);
  const auto properties = accelerator.device_properties(0);
  EXPECT_EQ(properties.uuid, kFast);
  EXPECT_EQ(properties.multi_processor_count, 132);
  EXPECT_EQ(properties.vendor, "NVIDIA");
  EXPECT_EQ(accelerator.compute_capability(0), (std::pair{9, 0}));
}

// Fails if memory statistics are missing on a machine without NVML.
TEST_F(CudaTest, MemoryStatisticsWithoutNvml) {
  setenv("ANYACCEL_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
  test::install_test_device("cuda", 1);
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.total_memory(), static_cast<std::int64_t>(test::kDeviceMemory));
}

struct Gate {
  int major, minor;
  bool fp16, triton, grouped, fp8, fast_bf16;
};
class CudaGates : public CudaTest, public testing::WithParamInterface<Gate> {};

// Fails if a feature requires a different compute capability than in DeepSpeed and torch.
TEST_P(CudaGates, FollowTheCapability) {
  const auto& gate = GetParam();
  machine(gate.major, gate.minor);
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  test::install_test_device("cuda");
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.is_fp16_supported(), gate.fp16);
  EXPECT_TRUE(accelerator.is_bf16_supported());  // torch also counts emulated bf16 as supported
  EXPECT_EQ(accelerator.dtype_support(c10::ScalarType::BFloat16).fast, gate.fast_bf16);
  EXPECT_EQ(accelerator.dtype_support(c10::ScalarType::Float8_e4m3fn).computable, gate.fp8);
  EXPECT_EQ(accelerator.is_triton_supported(), gate.triton);
  EXPECT_EQ(accelerator.prefer_triton_grouped_mm(), gate.grouped);
  EXPECT_TRUE(accelerator.is_fp64_supported());
}

INSTANTIATE_TEST_SUITE_P(Capabilities, CudaGates,
                         testing::Values(Gate{6, 1, false, false, false, false, false},
                                         Gate{7, 0, true, false, true, false, false},
                                         Gate{8, 0, true, true, true, false, true},
                                         Gate{8, 9, true, true, true, true, true},
                                         Gate{9, 0, true, true, false, true, true}),
                         [](const auto& row) {
                           return "sm" + std::to_string(row.param.major * 10 + row.param.minor);
                         });

// Fails if fp16, which is deprecated on compute capability 6.x, cannot be enabled.
TEST_F(CudaTest, DeprecatedFp16CanBeEnabled) {
  machine(6, 1);
  setenv("DS_ALLOW_DEPRECATED_FP16", "1", 1);
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  test::install_test_device("cuda");
  EXPECT_TRUE(get_accelerator().is_fp16_supported());
}

// Fails if the caller's host memory is not registered with the driver, or a driver error is
// swallowed.
TEST_F(CudaTest, RegistersHostMemory) {
  machine(9, 0);
  load_driver();
  test::install_test_device("cuda");
  start_driver();
  auto& accelerator = get_accelerator();
  std::vector<char> memory(4096);
  EXPECT_TRUE(accelerator.register_host_memory(memory.data(), 4096));
  EXPECT_ERROR(accelerator.register_host_memory(memory.data(), 4096), device_error,
               "ALREADY_REGISTERED");
  accelerator.unregister_host_memory(memory.data());
  EXPECT_TRUE(accelerator.register_host_memory(memory.data(), 4096));
}

// Fails if creating a graph on a LibTorch without CUDA does not give a clear error.
TEST_F(CudaTest, GraphsRequireACudaLibTorch) {
  machine(9, 0);
  test::TestDevice::get().graphs = false;
  test::install_test_device("cuda");
  EXPECT_ERROR(get_accelerator().create_graph(), unsupported, "libtorch_cuda.so is not loaded");
  EXPECT_FALSE(get_accelerator().is_current_stream_capturing());
}

#if ANYACCEL_TEST_GRAPHS
// Fails if a test device that replaces CUDA cannot use its own registered graphs because LibTorch
// was built without CUDA.
TEST_F(CudaTest, GraphsOfATestDevice) {
  machine(9, 0);
  const auto& device = test::install_test_device("cuda");
  auto graph = get_accelerator().create_graph();
  get_accelerator().capture_to_graph(graph).end();
  graph.replay();
  EXPECT_EQ(device.graph_replays, 1);
}
#endif

#ifdef ANYACCEL_TEST_CUDA_GRAPH

/// Loads a library with RTLD_LOCAL, as Python loads a CUDA build of LibTorch.
void* load_torch_cuda(const char* name) {
  return dlopen(fake(name).c_str(), RTLD_LAZY | RTLD_LOCAL);
}

// Fails if a LibTorch that does not match libanyaccel_cuda_graph.so causes a crash, or the error
// lacks the reason.
TEST_F(CudaTest, GraphsReportAMismatchedLibTorch) {
  machine(9, 0);
  ASSERT_NE(load_torch_cuda("fake_torch_cuda_empty"), nullptr) << dlerror();
  test::install_test_device("cuda");
  EXPECT_ERROR(get_accelerator().create_graph(), unsupported, "CUDAGraph");
}

// Fails if calls to a graph do not reach torch's CUDAGraph in the right order, with the right pool.
TEST_F(CudaTest, GraphsUseTorchsClass) {
  machine(9, 0);
  void* torch_cuda = load_torch_cuda("fake_torch_cuda");
  ASSERT_NE(torch_cuda, nullptr) << dlerror();
  load_driver();
  start_driver();
  const auto calls =
      reinterpret_cast<const char* (*)()>(dlsym(torch_cuda, "fake_torch_cuda_calls"));
  test::install_test_device("cuda");
  auto& accelerator = get_accelerator();
  accelerator.synchronize();
  {
    auto graph = accelerator.create_graph();
    EXPECT_ERROR(graph.replay(), invalid_state, "");
    {
      auto capture = accelerator.capture_to_graph(graph);
      EXPECT_TRUE(accelerator.is_current_stream_capturing());
      capture.end();
    }
    EXPECT_FALSE(accelerator.is_current_stream_capturing());
    EXPECT_EQ(graph.pool(), (GraphPool{77, 0}));
    accelerator.replay_graph(graph);
    graph.reset();
    graph.capture_begin(GraphPool{5, 0});
    graph.capture_end();
    EXPECT_EQ(graph.pool(), (GraphPool{5, 0}));
  }
  EXPECT_THAT(calls(), testing::StartsWith("make begin end replay reset begin end "));
  EXPECT_THAT(calls(), testing::EndsWith("destroy "));
}

#endif  // ANYACCEL_TEST_CUDA_GRAPH

}  // namespace
}  // namespace anyaccel
