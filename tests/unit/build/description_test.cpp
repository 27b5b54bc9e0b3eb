#include "build/description.h"

#include "build/key.h"
#include "build/progress.h"
#include "build/sha256.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

const std::string kHead =
    "anyaccel_op = 1\n# said\nclass_name = TinyBuilder\nname = tiny\nbackends = one, two\nsource = "
    "a.cpp: -mavx2 "
    "-mfma\n";

// Fails if a key is not parsed into its member.
TEST(Description, AllKeys) {
  const auto op = parse_description(
      kHead +
      "source = cuda/k.cu\nshared_source = kernels/threads.cpp  io/all.cc : -O1\nheader = "
      "hwy/highway.h: "
      "libhwy-dev\nlink = uring\n"
      "flag = -O3 -fno-math-errno\nsycl_include = inc\nsycl_kernel_path = kernels\n"
      "prefix_variable = CCL_ROOT\ncompiler = bin/icpx\ntorch = no\npython = "
      "/usr/include/python3.12\n");
  EXPECT_EQ(op.class_name, "TinyBuilder");
  EXPECT_EQ(op.name, "tiny");
  EXPECT_TRUE(op.serves("two"));
  EXPECT_FALSE(op.serves("three"));
  ASSERT_EQ(op.sources.size(), 3U);
  EXPECT_THAT(op.sources[0].flags, testing::ElementsAre("-mavx2", "-mfma"));
  EXPECT_TRUE(op.needs_nvcc());
  EXPECT_FALSE(op.sources[1].shared);
  EXPECT_TRUE(op.sources[2].shared);
  EXPECT_THAT(op.sources[2].files, testing::ElementsAre("kernels/threads.cpp", "io/all.cc"));
  EXPECT_THAT(op.sources[2].flags, testing::ElementsAre("-O1"));
  EXPECT_EQ(op.headers.at(0).package, "libhwy-dev");
  EXPECT_THAT(op.links, testing::ElementsAre("uring"));
  EXPECT_THAT(op.flags, testing::ElementsAre("-O3", "-fno-math-errno"));
  EXPECT_THAT(op.includes, testing::ElementsAre("inc"));
  EXPECT_EQ(op.kernel_path + op.prefix_variable + op.compiler, "kernelsCCL_ROOTbin/icpx");
  EXPECT_EQ(op.python, "/usr/include/python3.12");
  EXPECT_FALSE(op.torch);
  EXPECT_TRUE(parse_description(
                  "anyaccel_op = 1\nclass_name = ABuilder\nname = a\nbackends = *\nsource = a.c\n")
                  .serves("any"));
}

struct Bad {
  const char* line;
  const char* message;
};

class BadLine : public testing::TestWithParam<Bad> {};

// Fails if an invalid or unsafe line is accepted, or the error lacks the line number.
TEST_P(BadLine, IsRejectedWithItsNumber) {
  EXPECT_ERROR(parse_description(kHead + GetParam().line), corrupt, "line 7");
  EXPECT_ERROR(parse_description(kHead + GetParam().line), corrupt, GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    All, BadLine,
    testing::Values(
        Bad{"nonsense", "not `key = value`"}, Bad{"colour = red", "unknown key"},
        Bad{"name = again", "appears twice"}, Bad{"python = include", "not an absolute path"},
        Bad{"torch =", "has no value"}, Bad{"torch = maybe", "neither yes nor no"},
        Bad{"source = ../secret.cpp", "not a path below"},
        Bad{"source = /etc/a.cpp", "not a path below"}, Bad{"source = a.txt", "not a source"},
        Bad{"source = a.cpp b.txt", "not a source"},
        Bad{"source = a.cpp b.cu", "\"b.cu\" cannot share a line"},
        Bad{"source = a.cpp ../b.cpp", "not a path below"},
        Bad{"source = : -O1", "not a path below"}, Bad{"include = -I/", "not a path below"},
        Bad{"flag = -O3 -ffast-math", "changes floating-point results"},
        Bad{"flag = O3", "\"O3\" is not a flag"},
        Bad{"source = x.cpp: -specs=/opt/x", "reads files"},
        Bad{"link = -lm", "not a library name"}, Bad{"compiler = a b", "not a program"},
        Bad{"header = a b", "not a header"}, Bad{"name = a\tb", "control character"}));

// Fails if an incomplete file, or a file of a different kind or version, is accepted.
TEST(Description, InvalidFiles) {
  EXPECT_ERROR(parse_description(""), corrupt, "empty");
  EXPECT_ERROR(parse_description("anyaccel_plugin = 1\n"), corrupt, "`anyaccel_op = 1`");
  EXPECT_ERROR(parse_description("anyaccel_op = 2\n"), version_mismatch, "'2'");
  EXPECT_ERROR(parse_description("anyaccel_op = 1\nname = a\n"), corrupt,
               "`class_name` is missing");
}

// Fails if the digest is not SHA-256, or depends on how the text is split into add() calls. The
// test vectors are from FIPS 180-4.
TEST(Sha256, Vectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Sha256 pieces;
  for (int i = 0; i < 1'000'000 / 50; ++i) pieces.add(std::string(50, 'a'));
  EXPECT_EQ(pieces.hex(), sha256(std::string(1'000'000, 'a')));
}

// Fails if `native` is accepted as an architecture, or torch's notation is misread.
TEST(Target, Names) {
  EXPECT_THAT(parse_cuda_archs("8.0;90a, 9.0+PTX 80"), testing::ElementsAre("80", "90a", "90+PTX"));
  EXPECT_ERROR(parse_cuda_archs("ampere"), invalid_argument, "ampere");
  EXPECT_EQ(checked_arch("x86-64-v3"), "x86-64-v3");
  EXPECT_ERROR(checked_arch("native"), invalid_argument, "other than native");
  EXPECT_ERROR(checked_arch("a b"), invalid_argument, "a b");
  const test::ScopedEnv torch("TORCH_CUDA_ARCH_LIST", "7.5");
  EXPECT_THAT(target_from_environment().cuda_archs, testing::ElementsAre("75"));
}

// Fails if more jobs run than fit in memory, or no job runs at all.
TEST(Jobs, FitTheMemory) {
  EXPECT_EQ(job_count(8, 16, 64LL << 30), 8);
  EXPECT_EQ(job_count(8, 4, 64LL << 30), 4);
  EXPECT_EQ(job_count(8, 16, 5LL << 30), 3);
  EXPECT_EQ(job_count(8, 16, 1LL << 20), 1);
  EXPECT_EQ(job_count(8, 1.5, 64LL << 30), 2) << "a quota of 1.5 CPUs";
  EXPECT_EQ(job_count(8, 0.5, 64LL << 30), 1);
}

}  // namespace

}  // namespace anyaccel::build
