// Tests the build of ops with CUDA sources, with a fake nvcc and a fake LibTorch with CUDA.
#include "build/cuda.h"

#include <sys/stat.h>

#include "build/elf.h"
#include "unit/build/fake_op.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

using test::ScopedEnv;

struct CudaTest : testing::Test {
  ScopedEnv ccache{"CCACHE_DISABLE", "1"};
  FakeOp fake;
  ScopedEnv home{"CUDA_HOME", fake.path("cuda").c_str()};
  ScopedEnv nvcc{"NVCC", ""};
  void SetUp() override {
    fake.add_nvcc("13.0");
    fake.write("ops/tiny/c.cu", "kernel\n");
    fake.describe("flag = -fno-math-errno -DTWO=2\nsource = c.cu: --fmad=false\n");
  }
};

// Fails if an op with CUDA sources counts as compatible although LibTorch lacks CUDA. It must still
// be possible to compile the op for another machine.
TEST_F(CudaTest, LibTorchWithoutCuda) {
  const auto expect_no = [&] {
    EXPECT_THAT(check(fake.op(), fake.settings).reason,
                testing::HasSubstr("was built without CUDA"));
    EXPECT_ERROR(fake.load(), unavailable,
                 "tiny cannot be used here: it has CUDA sources, but the LibTorch in");
  };
  expect_no();
  auto elsewhere = fake.settings;
  elsewhere.compile_only = true;
  EXPECT_EQ(find_or_build(fake.op(), elsewhere).origin, Origin::built);
  EXPECT_EQ(build_prebuilt(fake.op(), elsewhere, fake.path("prebuilt")), Origin::built);
  expect_no();
  EXPECT_FALSE(key_of(fake.op(), fake.settings).content.empty())
      << "explaining a key must not require CUDA";
}

// Fails if an nvcc with a different CUDA major version than LibTorch is accepted, or one with only
// a different minor version is rejected.
TEST_F(CudaTest, ToolkitMustMatchLibTorch) {
  fake.add_cuda_to_libtorch("12.8");
  EXPECT_ERROR(fake.load(), unavailable,
               "nvcc is from CUDA 13.0, but LibTorch was built with CUDA 12.8");
  EXPECT_THAT(check(fake.op(), fake.settings).reason,
              testing::HasSubstr("set CUDA_HOME to a toolkit for CUDA 12"));
  {
    const ScopedEnv skip("DS_SKIP_CUDA_CHECK", "1");
    EXPECT_TRUE(check(fake.op(), fake.settings).compatible);
  }
  fake.add_cuda_to_libtorch("13.2");
  EXPECT_TRUE(check(fake.op(), fake.settings).compatible);
  EXPECT_EQ(fake.load().origin, Origin::built);
}

// Fails if host compiler flags reach nvcc without -Xcompiler, or a source's flags are lost or
// applied to other sources.
TEST_F(CudaTest, HostFlagsAreWrapped) {
  fake.add_cuda_to_libtorch("13.0");
  fake.load();
  EXPECT_THAT(read_file(fake.path("cuda/calls")),
              testing::HasSubstr("-Xcompiler=-fno-math-errno -DTWO=2 --fmad=false"));
  EXPECT_THAT(read_file(fake.path("calls")),
              testing::AllOf(
                  // In sanitizer builds, sanitizer flags follow -fvisibility=hidden.
                  testing::HasSubstr("-Wno-missing-field-initializers -fPIC -fvisibility=hidden "),
                  testing::HasSubstr(" -fno-math-errno -DTWO=2 -I")));
}

// Fails if nvcc is not required for an op whose only CUDA source is shared with other ops.
TEST_F(CudaTest, SharedSourceMayBeCuda) {
  fake.write("kernels/shared.cu", "shared\n");
  fake.describe("shared_source = kernels/shared.cu\n");
  EXPECT_TRUE(fake.op().description.needs_nvcc());
  const ScopedEnv none("NVCC", "/nowhere/nvcc");
  fake.add_cuda_to_libtorch("13.0");
  EXPECT_ERROR(fake.load(), unavailable, "/nowhere/nvcc");
}

// Fails if two LibTorch builds of the same size but with different build ids have the same
// fingerprint.
TEST_F(CudaTest, BuildIdsDistinguishLibTorchBuilds) {
  const auto fingerprint = [&] { return read_libtorch(fake.path("torch")).fingerprint; };
  const std::string rest(1'000'000, 'x');
  fake.write("torch/lib/libtorch_cpu.so", tiny_elf("build one", {}) + rest);
  const auto first = fingerprint();
  fake.write("torch/lib/libtorch_cpu.so", tiny_elf("build two", {}) + rest);
  const auto second = fingerprint();
  EXPECT_NE(first, second);
  fake.add_cuda_to_libtorch("13.0");
  EXPECT_NE(fingerprint(), second);
  EXPECT_EQ(read_libtorch(fake.path("torch")).cuda, "13.0");
  std::filesystem::remove(fake.path("torch/version.py"));
  EXPECT_EQ(read_libtorch(fake.path("torch")).cuda, "13");
  fake.write("torch/build-version", "2.13.0+cu130\n");
  EXPECT_EQ(read_libtorch(fake.path("torch")).cuda, "13.0");
}

// Fails if a file that is not ELF is accepted, or a damaged one is read beyond its end.
TEST(Elf, DamagedFiles) {
  const llm::TemporaryFolder folder;
  const auto whole = tiny_elf("identity", {"liba.so.1", "libb.so"});
  folder.write("whole", whole);
  const auto facts = read_elf(folder / "whole");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->build_id, "6964656e74697479");
  EXPECT_THAT(facts->needed, testing::ElementsAre("liba.so.1", "libb.so"));
  EXPECT_FALSE(read_elf(folder / "none"));
  for (std::size_t size = 0; size < whole.size(); size += 3) {
    folder.write("cut", whole.substr(0, size));
    EXPECT_FALSE(read_elf(folder / "cut")) << size;
  }
  for (std::size_t at = 16; at < whole.size(); at += 3) {
    auto damaged = whole;
    damaged[at] = '\xff';
    folder.write("damaged", damaged);
    const auto read = read_elf(folder / "damaged");  // must not crash
    EXPECT_LE(read ? read->needed.size() : 0, 2U);
  }
  EXPECT_TRUE(read_elf("/proc/self/exe"));
}

// Fails if a FIFO or device is opened as a library. Reading from it may block the process.
TEST(Elf, OnlyRegularFilesAreOpened) {
  const llm::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {folder / "fifo", std::filesystem::path("/dev/zero"), folder.path()}) {
    EXPECT_FALSE(read_elf(path)) << path;
    EXPECT_EQ(library_identity(path), "") << path;
  }
  folder.write("text", "no ELF");
  EXPECT_THAT(library_identity(folder / "text"), testing::StartsWith("6 bytes "));
}

}  // namespace

}  // namespace anyaccel::build
