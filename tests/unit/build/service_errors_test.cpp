// Tests builds that fail because the disk is full, or because the compiler hangs or fails.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <sstream>

#include "build/processes.h"
#include "build/service.h"
#include "unit/build/fake_op.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;

/// Runs `work` in a child whose cache is on a separate small disk. `work` gets a function that sets
/// the disk's size in KiB. That function returns false if the disk cannot be mounted.
template <typename Work>
int run_on_small_disk(const fs::path& cache, Work&& work) {
  fs::create_directories(cache);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      ::_exit(77);
    bool mounted = false;
    const auto resize = [&](int kilobytes) {
      if (mounted) ::umount(cache.c_str());
      const auto options = "mode=700,size=" + std::to_string(kilobytes) + "k";
      return mounted = ::mount("none", cache.c_str(), "tmpfs", 0, options.c_str()) == 0;
    };
    ::_exit(work(resize));
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

struct ServiceErrors : testing::Test {
  ScopedEnv ccache{"CCACHE_DISABLE", "1"};
  FakeOp fake;
  template <typename Work>
  int on_small_disk(Work&& work) const {
    return run_on_small_disk(fake.settings.cache, std::forward<Work>(work));
  }
};

// Fails if a full disk leaves a partial library, or a read-only cache cannot be used.
TEST_F(ServiceErrors, FullAndReadOnlyDisks) {
  const pid_t child = ::fork();
  if (child == 0) {
    // This disk is visible only in the child.
    fs::create_directory(fake.settings.cache);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", fake.settings.cache.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
      ::_exit(77);
    fake.load();
    ::mount("none", fake.settings.cache.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY,
            "size=64k,mode=700");
    if (fake.load().origin != Origin::cached) ::_exit(2);
    fake.describe("torch = no\nflag = -O3\n");
    try {
      fake.load();
      ::_exit(3);
    } catch (const Error& error) {
      // check() must report the error that load() throws.
      if (check(fake.op(), fake.settings).reason.find("Read-only") == std::string::npos) ::_exit(7);
      if (error.code() != ErrorCode::io ||
          std::string(error.what()).find(fake.settings.cache) == std::string::npos)
        ::_exit(4);
    }
    ::mount("none", fake.settings.cache.c_str(), "tmpfs", MS_REMOUNT, "size=64k,mode=700");
    if (check(fake.op(), fake.settings).reason.find("No space") == std::string::npos) ::_exit(8);
    fake.write("ops/tiny/a.cpp", std::string(100'000, 'a'));
    try {
      fake.load();
      ::_exit(5);
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool good = error.code() == ErrorCode::io && text.find("full") != text.npos &&
                        text.find("ANYACCEL_OP_CACHE") != text.npos;
      ::_exit(good && fake.in_cache("tiny-") == 1 && fake.in_cache(".anyaccel-build-") == 0 ? 0
                                                                                            : 6);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root can mount a disk";
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

// Fails if a full disk is reported only as "the compiler exited with code 1 and printed: (no
// output)". This can happen if the compiler's output goes to the full disk. Removing the output
// file then frees space, so the disk no longer seems full.
TEST_F(ServiceErrors, EveryStepReportsAFullDisk) {
  fake.write("temporary", std::string(400'000, 's'));
  const auto result = on_small_disk([&](const auto& resize) {
    bool built = false;
    for (int kilobytes = 4; !built && kilobytes < 2000; kilobytes += kilobytes < 64 ? 4 : 60) {
      if (!resize(kilobytes)) return 77;
      try {
        built = fake.load().origin == Origin::built;
        if (kilobytes < 400) return 2;
      } catch (const Error& error) {
        const std::string text = error.what();
        const bool names =
            text.find("full") != text.npos || text.find("No space left on device") != text.npos;
        std::fprintf(stderr, "%d KiB: %s\n", kilobytes, error.what());
        if (error.code() != ErrorCode::io || !names || text.find(fake.settings.cache) == text.npos)
          return 3;
      }
    }
    return built ? 0 : 4;
  });
  if (result == 77) GTEST_SKIP() << "only root can mount a disk";
  EXPECT_EQ(result, 0);
}

// Fails if a disk that fills up during a real compilation is not reported as a disk error.
TEST_F(ServiceErrors, RealCompilerOnASmallDisk) {
  fake.settings.compiler.clear();
  fake.write("ops/tiny/a.h", "#include <string>\n");
  fake.write("ops/tiny/a.cpp",
             "#include \"a.h\"\nstd::string a() { return std::string(4, 'a'); }\n");
  fake.write("ops/tiny/b.cpp", "#include \"a.h\"\nchar big[300000] = {1};\n");
  const auto result = on_small_disk([&](const auto& resize) {
    for (const int kilobytes : {16, 48, 96, 200, 400, 700}) {
      if (!resize(kilobytes)) return 77;
      try {
        fake.load();
        if (kilobytes < 300) return 2;
      } catch (const Error& error) {
        const std::string text = error.what();
        std::fprintf(stderr, "%d KiB: %s\n", kilobytes, error.what());
        if (error.code() != ErrorCode::io || text.find(fake.settings.cache) == text.npos) return 3;
      }
    }
    return 0;
  });
  if (result == 77) GTEST_SKIP() << "only root can mount a disk";
  EXPECT_EQ(result, 0);
}

// Fails if a header counts as missing because the compiler has no space for temporary files.
TEST_F(ServiceErrors, FullTemporaryFolder) {
  fake.describe("torch = no\nheader = x/x.h: libx-dev\n");
  fake.write("no room", "");
  const ScopedEnv folder("TMPDIR", "/tmp/elsewhere");
  EXPECT_ERROR(
      fake.load(), unavailable,
      "the disk that holds /tmp/elsewhere is full: the compiler printed \"as: No space left");
  EXPECT_THAT(check(fake.op(), fake.settings).reason, testing::HasSubstr("/tmp/elsewhere is full"));
}

// Fails if a hung compiler blocks the build forever, or keeps running after the timeout.
TEST_F(ServiceErrors, HungCompilerIsATimeout) {
  const ScopedEnv limit("ANYACCEL_OP_BUILD_TIMEOUT", "1");
  const auto begin = std::chrono::steady_clock::now();
  fake.write("hangs", "");
  EXPECT_ERROR(fake.load(), timeout,
               "ANYACCEL_OP_BUILD_TIMEOUT=1 seconds: checking the version of ");
  EXPECT_THAT(check(fake.op(), fake.settings).reason,
              testing::HasSubstr("ANYACCEL_OP_BUILD_TIMEOUT=1"));
  fs::remove(fake.path("hangs"));
  fake.write("slow", "60");
  EXPECT_ERROR(
      fake.load(), timeout,
      "building tiny took longer than ANYACCEL_OP_BUILD_TIMEOUT=1 seconds: compiled 0 of 2");
  EXPECT_ERROR(fake.load(), timeout, "now a.cpp");
  EXPECT_EQ(fake.in_cache(".anyaccel-build-"), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
  std::istringstream pids(read_file(fake.path("pids")));
  for (std::string pid; pids >> pid;) {
    const auto stat = try_read_file("/proc/" + pid + "/stat");
    EXPECT_TRUE(!stat || stat->find(") Z ") != stat->npos) << "a compiler outlived its build";
  }
  fs::remove(fake.path("slow"));
  EXPECT_EQ(fake.load().origin, Origin::built);
}

// Fails if endless compiler output is not truncated.
TEST_F(ServiceErrors, EndlessOutputIsTruncated) {
  fake.write("endless", "");
  std::string text;
  try {
    fake.load();
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, testing::HasSubstr("and printed:\ny\ny\n"));
  EXPECT_LT(text.size(), 20'000U);
}

// Fails if a full disk is detected only by its free space. If a quota is exceeded, the compiler
// cannot write although the disk has free space.
TEST_F(ServiceErrors, CompilerReportsAFullDisk) {
  fake.write("says", "as: cannot write: Disk quota exceeded\n");
  EXPECT_ERROR(fake.load(), io, "is full");
}

// Fails if the command that reproduces a link error refers to deleted objects. The test runs the
// command and compares the output.
TEST_F(ServiceErrors, LinkErrorCanBeReproduced) {
  fake.write("badlink", "");
  std::string text;
  try {
    fake.load();
  } catch (const Error& error) {
    text = error.what();
  }
  ASSERT_THAT(text, testing::HasSubstr("undefined reference"));
  const auto command = text.substr(text.find("to reproduce it:\n") + 17);
  const auto said = run_program({"/bin/sh", "-c", command}, {"PATH=/usr/bin:/bin"});
  EXPECT_EQ(said.status, 4) << command << said.output;
  EXPECT_EQ(said.output, "undefined reference\n");
}

}  // namespace

}  // namespace anyaccel::build
