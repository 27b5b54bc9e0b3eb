// Tests the differences between vendor backends and the generic one.
#include <ATen/Context.h>
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

using c10::ScalarType;

class DifferencesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (registered_backends().size() < 10) GTEST_SKIP() << "this build lacks some backends";
  }
  /// Installs a test device as the given type and returns its accelerator.
  static Accelerator& start(const char* name) {
    setenv("ANYACCEL_DEVICE_ROOT", "/nonexistent", 1);
    setenv("ANYACCEL_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
    setenv("DS_ACCELERATOR", name, 1);
    test::install_test_device(name);
    return get_accelerator();
  }
};

// Fails if Gaudi is initialized without deterministic algorithms, or default settings override the
// user's environment variables.
TEST_F(DifferencesTest, HpuStartsDeterministic) {
  setenv("PT_HPU_LAZY_ACC_PAR_MODE", "1", 1);
  unsetenv("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES");
  start("hpu");
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_STREQ(std::getenv("PT_HPU_LAZY_ACC_PAR_MODE"), "1");
  EXPECT_STREQ(std::getenv("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"), "0");
}

// Fails if fp16 counts as supported without confirmation by the vendor's package. Python does not
// run in this process, so the package cannot be asked.
TEST_F(DifferencesTest, HpuFp16NeedsConfirmation) {
  auto& hpu = start("hpu");
  EXPECT_FALSE(hpu.is_fp16_supported());
  EXPECT_TRUE(hpu.is_bf16_supported());
  EXPECT_EQ(hpu.supported_dtypes(), (std::vector{ScalarType::Float, ScalarType::BFloat16}));
}

// Fails if names of Gaudi devices contain an index, which Gaudi's PyTorch port does not accept
// everywhere.
TEST_F(DifferencesTest, HpuNamesHaveNoIndex) {
  auto& hpu = start("hpu");
  hpu.set_device(1);
  EXPECT_EQ(hpu.device_name(1), "hpu");
  EXPECT_EQ(hpu.current_device_name(), "hpu");
  EXPECT_EQ(hpu.current_device(), 1);
  EXPECT_EQ(hpu.get_compile_backend(), "hpu_backend");
  EXPECT_TRUE(hpu.resolves_data_dependency());
  EXPECT_TRUE(hpu.handles_memory_backpressure());
  EXPECT_FALSE(hpu.is_synchronized_device());
}

#if ANYACCEL_TEST_GRAPHS
// Fails if a graph class that the vendor registered with torch is not used.
TEST_F(DifferencesTest, HpuGraphsComeFromTorchsRegistry) {
  auto& hpu = start("hpu");
  auto graph = hpu.create_graph();
  graph.capture_begin();
  graph.capture_end();
  hpu.replay_graph(graph);
  EXPECT_EQ(test::TestDevice::get().graph_replays, 1);
}
#endif

// Fails if Apple GPUs report fp64, which Metal lacks, or bf16 before macOS 14.
TEST_F(DifferencesTest, MpsTypes) {
  auto& mps = start("mps");
  EXPECT_FALSE(mps.is_fp64_supported());
  EXPECT_FALSE(mps.dtype_support(ScalarType::Double).storable);
  EXPECT_TRUE(mps.is_bf16_supported());
  test::TestDevice::get().macos14 = false;
  EXPECT_FALSE(mps.is_bf16_supported());
  EXPECT_TRUE(mps.is_fp16_supported());
  EXPECT_EQ(mps.communication_backend_name(), "staged");
  EXPECT_TRUE(mps.visible_devices_envs().empty());
}

// Fails if empty_cache() does not release Metal's cache.
TEST_F(DifferencesTest, MpsEmptiesItsCache) {
  start("mps").empty_cache();
  EXPECT_EQ(test::TestDevice::get().cache_emptied, 1);
}

// Fails if Intel GPUs report the wrong communication backend.
TEST_F(DifferencesTest, XpuCommunication) {
  auto& xpu = start("xpu");
  EXPECT_EQ(xpu.communication_backend_name(), "xccl");
  EXPECT_EQ(xpu.visible_devices_envs(), std::vector<std::string>{"ZE_AFFINITY_MASK"});
}

// Fails if a low priority becomes a high one. Huawei's device guard treats every priority other
// than 0 as high, and none of these vendors has low priorities.
TEST_F(DifferencesTest, PrivateUse1VendorsHaveNoLowPriority) {
  auto& npu = start("npu");
  EXPECT_EQ(npu.Stream(std::nullopt, 1).id() % 10, 0);
  EXPECT_EQ(npu.Stream(std::nullopt, -1).id() % 10, 1);
}

// Fails if Biren's default stream is the current one, which its device guard returns.
TEST_F(DifferencesTest, SupaDefaultStreamIsNotTheCurrentOne) {
  auto& supa = start("supa");
  test::TestDevice::get().default_is_current = true;
  const auto side = supa.Stream();
  const auto guard = supa.stream(side);
  EXPECT_EQ(supa.default_stream().id(), 0);
}

// Fails if torch's internal error is shown when an allocator does not report free memory, as
// Biren's does not.
TEST_F(DifferencesTest, SupaMemoryInfoSaysWhatIsMissing) {
  auto& supa = start("supa");
  test::TestDevice::get().memory_info = false;
  EXPECT_ERROR(supa.available_memory(), unsupported, "its allocator does not implement it");
  EXPECT_EQ(supa.memory_allocated(), 0);
}

// Fails if the compile backends that torch_npu registers are rejected.
TEST_F(DifferencesTest, NpuCompileBackends) {
  auto& npu = start("npu");
  for (const char* name : {"npu", "npugraph_ex", "npugraphs"}) {
    npu.set_compile_backend(name);
    EXPECT_EQ(npu.get_compile_backend(), name);
  }
}

// Fails if the mlu backend does not report Triton support, or the npu backend does.
TEST_F(DifferencesTest, MluHasTriton) { EXPECT_TRUE(start("mlu").is_triton_supported()); }
TEST_F(DifferencesTest, NpuHasNoTriton) { EXPECT_FALSE(start("npu").is_triton_supported()); }

#ifdef ANYACCEL_TEST_NVTX
// Fails if profiler ranges lose their domain or category, or are closed in the wrong domain.
TEST_F(DifferencesTest, CudaRangesReachTheProfiler) {
  const auto path = std::string(ANYACCEL_BUILD_DIR) + "/lib/libfake_nvtx.so";
  setenv("NVTX_INJECTION64_PATH", path.c_str(), 1);
  ANYACCEL_SKIP_IF_TAKEN("cuda");
  auto& cuda = start("cuda");
  ASSERT_TRUE(cuda.supports_nvtx_domain());
  cuda.range_push("step", "train", "forward");
  cuda.range_push("plain");
  cuda.range_pop();
  cuda.range_pop("train");
  EXPECT_ERROR(cuda.range_pop(), invalid_state, "no range is open");
  void* profiler = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(profiler, nullptr);
  const auto calls = reinterpret_cast<const char* (*)()>(dlsym(profiler, "fake_nvtx_calls"));
  EXPECT_STREQ(calls(),
               "category train/1=forward; push train/1/step; push -/0/plain; pop -; pop train; ");
}
#endif

}  // namespace
}  // namespace anyaccel
