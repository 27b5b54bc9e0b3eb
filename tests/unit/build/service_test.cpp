#include "build/service.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "unit/build/fake_op.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;

constexpr const char* kWhole = "#include \"a.h\"\nfirst\nsecond\n";

struct ServiceTest : testing::Test {
  ScopedEnv ccache{"CCACHE_DISABLE", "1"};
  FakeOp fake;
};

// Fails if a cached op is built again, or the compiler runs when the op is loaded.
TEST_F(ServiceTest, CachedLoadRunsNoProgram) {
  auto found = fake.load();
  EXPECT_EQ(found.origin, Origin::built);
  EXPECT_EQ(read_file(found.held.library), kWhole);
  EXPECT_EQ(fake.calls(), 4);  // version, two sources, and link step
  EXPECT_EQ(fake.in_cache(".anyaccel-build-"), 0);
  EXPECT_EQ(fake.load().origin, Origin::cached);
  EXPECT_EQ(fake.calls(), 4);
}

// Fails if a change that affects the binary does not change the key. Each change must cause a
// build, and undoing the change must not.
TEST_F(ServiceTest, KeyCoversEverythingThatAffectsTheBinary) {
  fake.describe("");  // uses LibTorch, so that the key covers it
  fake.load();
  int built = 1;
  const auto expect_new = [&](const char* what) {
    EXPECT_EQ(fake.load().origin, Origin::built) << what;
    EXPECT_EQ(fake.in_cache("tiny-"), ++built) << what;
  };
  fake.write("ops/tiny/a.h", "other\n");
  expect_new("a header");
  fake.write("ops/tiny/by_name.h", "kernel\n");
  fake.write("ops/tiny/a.h", "other\n#define KERNEL \"by_name.h\"\n#include KERNEL\n");
  expect_new("a header that names another by a macro");
  fake.write("ops/tiny/by_name.h", "another kernel\n");
  expect_new("a header that is named by a macro");
  fake.describe("flag = -O3\n");
  expect_new("a flag");
  fake.settings.target.arch = "x86-64-v3";
  expect_new("the instruction set");
  fake.write("version", "fake 2.0\n");
  fake.write("bin/cxx", read_file(fake.path("bin/cxx")) + "# newer\n");
  expect_new("the compiler");
  fake.write("torch/lib/libtorch_cpu.so", "y" + std::string(99'999, 'x'));
  expect_new("a LibTorch of the same size");
  {
    const ScopedEnv folders("CPATH", "/opt/other/include");
    expect_new("where the compiler looks");
  }
  EXPECT_EQ(fake.load().origin, Origin::cached);
}

// Fails if LibTorch's location or time stamps affect the key. Moving a virtual environment would
// then rebuild everything.
TEST_F(ServiceTest, MovedLibTorchKeepsTheKey) {
  fake.describe("");
  fake.load();
  fs::rename(fake.path("torch"), fake.path("moved"));
  EXPECT_ERROR(fake.load(), unavailable, "ANYACCEL_TORCH_DIR");
  fake.settings.torch_prefix = fake.path("moved");
  fs::last_write_time(fake.path("moved/lib/libc10.so"), fs::file_time_type::clock::now());
  EXPECT_EQ(fake.load().origin, Origin::cached);
}

// Fails if a failed build leaves files behind, or the error lacks the compiler's output or the
// command to reproduce it.
TEST_F(ServiceTest, ErrorHasTheCompilersOutput) {
  fake.write("ops/tiny/a.cpp", "WRONG\n");
  EXPECT_ERROR(fake.load(), build_failed,
               "compiling a.cpp failed: the compiler exited with code 3 and printed:\na.cpp:1: "
               "this is WRONG");
  EXPECT_ERROR(fake.load(), build_failed, "it'\\''s/ops/tiny/a.cpp' -o /dev/null");
  EXPECT_EQ(fake.in_cache(".anyaccel-build-") + fake.in_cache("tiny-"), 0);
}

// Fails if a damaged library, or one with a truncated manifest, is used.
TEST_F(ServiceTest, DamagedLibraryIsBuiltAgain) {
  const auto library = fake.load().held.library;
  for (const auto& file : {library, fs::path(library.string() + kManifestSuffix)}) {
    fs::resize_file(file, fs::file_size(file) - 2);
    EXPECT_EQ(fake.load().origin, Origin::built) << file;
    EXPECT_EQ(read_file(library), kWhole);
  }
  EXPECT_EQ(fake.load().origin, Origin::cached);
  fs::remove(library.string() + kManifestSuffix);
  EXPECT_EQ(fake.load().origin, Origin::built) << "without a manifest";
  fs::remove(library.string() + kManifestSuffix);
  EXPECT_EQ(Cache(fake.settings.cache).clean("tiny").first, 1) << "without a manifest";
}

// Fails if other users can access cache entries because of a permissive umask, or cleaning removes
// unrelated folders.
TEST_F(ServiceTest, EntriesAreAccessibleOnlyToTheUser) {
  fake.settings.cache = fake.path("above/cache");
  const auto before = ::umask(0);
  const auto library = fake.load().held.library;
  ::umask(before);
  for (const auto& path : {library, fs::path(library.string() + kManifestSuffix),
                           library.parent_path(), fake.settings.cache, fake.path("above")})
    EXPECT_EQ(fs::status(path).permissions() & fs::perms(077), fs::perms::none) << path;
  fs::create_directory(fake.settings.cache / "mine-2024");
  EXPECT_EQ(Cache(fake.settings.cache).clean("").second, 0);
  EXPECT_TRUE(fs::exists(fake.settings.cache / "mine-2024"));
}

// Fails if a cache that other users can write is used. They could place links to any of the user's
// files there.
TEST_F(ServiceTest, NothingIsWrittenToAnUntrustedCache) {
  fs::create_directories(fake.settings.cache / "memo");
  ::chmod(fake.settings.cache.c_str(), 0777);
  EXPECT_ERROR(fake.load(), io, "cache\" is writable by everyone");
  EXPECT_TRUE(fs::is_empty(fake.settings.cache / "memo"));
}

// Fails if a prebuilt library requires a compiler, or one built from different sources is used.
TEST_F(ServiceTest, PrebuiltNeedsNoCompiler) {
  build_prebuilt(fake.op(), fake.settings, fake.path("prebuilt"));
  fake.settings.compiler = "/nowhere/c++";
  EXPECT_EQ(fake.load().origin, Origin::prebuilt);
  EXPECT_TRUE(check(fake.op(), fake.settings).compatible);
  fake.write("ops/tiny/b.cpp", "edited\n");
  std::string why;
  EXPECT_ERROR(find(fake.op(), fake.settings, &why), unavailable, "/nowhere/c++ was not found");
  EXPECT_THAT(why, testing::HasSubstr("file op/b.cpp differs"));
}

// Fails if check() and a build disagree about a requirement.
TEST_F(ServiceTest, CheckAgreesWithTheBuild) {
  fake.describe("torch = no\nheader = x/x.h: libx-dev\n");
  EXPECT_EQ(check(fake.op(), fake.settings).reason,
            "the header x/x.h is missing; install libx-dev");
  EXPECT_ERROR(fake.load(), unavailable, "the header x/x.h is missing; install libx-dev");
  fake.write("has/x/x.h", "");
  EXPECT_TRUE(check(fake.op(), fake.settings).compatible);
  EXPECT_EQ(fake.load().origin, Origin::built);
}

// Fails if the source and include folders or the compiler that an extension specifies are not used.
TEST_F(ServiceTest, ExtensionUsesItsOwnSourcesAndCompiler) {
  fake.settings.compiler.clear();
  const ScopedEnv none("CXX", "/nowhere/c++");
  fs::create_directories(fake.path("ops/tiny/bin"));
  fs::copy_file(fake.path("bin/cxx"), fake.path("ops/tiny/bin/cxx"));
  fake.write("ops/tiny/version", "own 1.0\n");
  fake.write("ops/tiny/kernels/a.cpp", "kernel\n");
  fake.write("ops/tiny/kernels/b.cpp", "");
  fake.describe("torch = no\ncompiler = bin/cxx\nsycl_kernel_path = kernels\nsycl_include = inc\n");
  const auto found = fake.load();
  EXPECT_EQ(read_file(found.held.library), "kernel\n");
  EXPECT_THAT(read_file(fake.path("ops/tiny/calls")),
              testing::HasSubstr("-I" + fake.path("ops/tiny/inc").string()));
  EXPECT_EQ(fake.calls(), 0);
}

// Fails if an op without CUDA sources requires nvcc, or the check of an op with CUDA sources does
// not report that nvcc is missing.
TEST_F(ServiceTest, OnlyCudaSourcesNeedNvcc) {
  const ScopedEnv nvcc("NVCC", "/nowhere/nvcc");
  EXPECT_EQ(fake.load().origin, Origin::built);
  fake.write("ops/tiny/c.cu", "");
  fake.describe("torch = no\nsource = c.cu\n");
  EXPECT_ERROR(fake.load(), unavailable, "/nowhere/nvcc");
  EXPECT_THAT(check(fake.op(), fake.settings).reason, testing::HasSubstr("/nowhere/nvcc"));
}

// Fails if libraries are loaded from a folder that other users can write.
TEST_F(ServiceTest, UntrustedCacheIsRejected) {
  fake.load();
  ::chmod(fake.settings.cache.c_str(), 0777);
  EXPECT_ERROR(fake.load(), io, "cache\" is writable by everyone");
  EXPECT_THAT(check(fake.op(), fake.settings).reason,
              testing::HasSubstr(fake.settings.cache.string()));
  ::chmod(fake.settings.cache.c_str(), 0700);
  EXPECT_EQ(fake.load().origin, Origin::cached);
  if (::chown(fake.settings.cache.c_str(), 12345, 12345) != 0)
    GTEST_SKIP() << "only root can change a folder's owner";
  EXPECT_ERROR(fake.load(), io, "belongs to user 12345");
}

// Fails if only the cache folder itself is checked. Anyone who can write a parent folder can
// replace the cache.
TEST_F(ServiceTest, CacheBelowAnUntrustedFolderIsRejected) {
  fake.settings.cache = fake.path("shared/mine/cache");
  fake.load();
  for (const mode_t mode : {0775, 0757}) {
    ::chmod(fake.path("shared").c_str(), mode);
    EXPECT_ERROR(fake.load(), io, "shared\" is writable by ");
    EXPECT_FALSE(Cache(fake.settings.cache).is_trusted());
    EXPECT_EQ(Cache(fake.settings.cache).memo_folder(), "");
    fake.settings.cache = fake.path("shared/mine/new");
    EXPECT_ERROR(fake.load(), io, "shared\" is writable by ");
    EXPECT_FALSE(fs::exists(fake.settings.cache));
    fake.settings.cache = fake.path("shared/mine/cache");
    ::chmod(fake.path("shared").c_str(), 0755);
    EXPECT_EQ(fake.load().origin, Origin::cached);
  }
  // In a sticky folder, only the owner of an entry can replace the entry.
  ::chmod(fake.path("shared").c_str(), 01777);
  EXPECT_EQ(fake.load().origin, Origin::cached);
}

// Fails if the error about a cache that cannot be created lacks the cache's path or a remedy.
TEST_F(ServiceTest, ErrorNamesACacheThatCannotBeCreated) {
  fake.settings.cache = "/proc/anyaccel/ops";
  EXPECT_ERROR(fake.load(), io, "/proc/anyaccel/ops cannot be created");
  EXPECT_ERROR(fake.load(), io, "set ANYACCEL_OP_CACHE");
}

// Fails if a query counts as a use. `ops list` would then protect every entry from eviction.
TEST_F(ServiceTest, QueryIsNotAUse) {
  const auto manifest = fake.load().held.library.string() + kManifestSuffix;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(5);
  fs::last_write_time(manifest, old);
  EXPECT_TRUE(check(fake.op(), fake.settings).compatible);
  EXPECT_TRUE(find(fake.op(), fake.settings));
  EXPECT_EQ(fs::last_write_time(manifest), old);
  EXPECT_EQ(fake.load().origin, Origin::cached);
  EXPECT_GT(fs::last_write_time(manifest), old);
}

// Fails if a prebuilt library takes precedence over a forced build, or the forced build survives
// cleaning.
TEST_F(ServiceTest, ForcedBuildPrecedesPrebuilt) {
  build_prebuilt(fake.op(), fake.settings, fake.path("prebuilt"));
  EXPECT_EQ(fake.load().origin, Origin::prebuilt);
  fake.settings.force = true;
  EXPECT_EQ(fake.load().origin, Origin::built);
  fake.settings.force = false;
  EXPECT_EQ(fake.load().origin, Origin::cached);
  Cache(fake.settings.cache).clean("tiny");
  EXPECT_EQ(fake.load().origin, Origin::prebuilt);
}

// Fails if libraries or builds that other machines may be using are removed from a shared cache.
// The locks of other machines are not visible on this machine.
TEST_F(ServiceTest, SharedCacheKeepsFilesInUse) {
  const ScopedEnv shared("ANYACCEL_OP_CACHE_SHARED", "1");
  auto found = fake.load();
  found.held.use = {};
  const auto library = found.held.library;
  const Cache cache(fake.settings.cache);
  fs::create_directory(fake.settings.cache / ".anyaccel-build-theirs");
  fake.write("cache/.anyaccel-build-theirs/owner", "");
  EXPECT_EQ(cache.evict(0), 0);
  EXPECT_EQ(cache.clean(""), (std::pair{0, 1}));
  EXPECT_EQ(fake.in_cache(".anyaccel-build-"), 1);
  const auto before = fs::hard_link_count(library);
  fs::create_hard_link(library, fake.path("as another machine has it open"));
  fake.settings.force = true;
  EXPECT_EQ(fake.load().origin, Origin::built);
  EXPECT_EQ(fs::hard_link_count(fake.path("as another machine has it open")), before + 1)
      << "the file that another machine uses was changed";
  EXPECT_EQ(cache.clean("", true).first, 1);
  // An entry that has not been loaded for a month is evicted.
  fake.settings.force = false;
  const auto again = fake.load().held.library;
  fs::last_write_time(again.string() + kManifestSuffix,
                      fs::file_time_type::clock::now() - std::chrono::hours(24 * 31));
  EXPECT_EQ(cache.evict(0), 1);
}

// Fails if eviction removes an entry in use, or the most recently used one.
TEST_F(ServiceTest, OldestUnusedEntriesAreEvicted) {
  std::vector<Found> found;
  for (const char* flag : {"-O1", "-O2", "-O3"}) {
    fake.describe(std::string("torch = no\nflag = ") + flag + "\n");
    found.push_back(fake.load());
  }
  const Cache cache(fake.settings.cache);
  const auto paths = [&] {
    std::vector<bool> out;
    for (const auto& one : found) out.push_back(fs::exists(one.held.library));
    return out;
  };
  EXPECT_EQ(cache.evict(0), 0) << "all are in use";
  found[0].held.use = {};
  found[1].held.use = {};
  EXPECT_EQ(cache.evict(cache.entries()[2].bytes + cache.entries()[1].bytes), 1);
  EXPECT_EQ(paths(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(cache.clean("tiny"), (std::pair{1, 1}));
  EXPECT_EQ(paths(), (std::vector<bool>{false, false, true}));
}

}  // namespace

}  // namespace anyaccel::build
