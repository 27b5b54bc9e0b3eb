#include "base/plugin/search.h"

#include <sys/stat.h>

#include "base/plugin/library_check.h"
#include "test_paths.h"
#include "unit/support/expect_error.h"
#include "unit/support/plugin_folder.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

using testing::HasSubstr;

const std::filesystem::path kLibrary = ANYACCEL_BUILD_DIR "/lib/libanyaccel_base.so";

FoundPlugin only_one(const std::filesystem::path& folder) {
  const auto found = find_plugins({{folder}});
  EXPECT_EQ(found.size(), 1U);
  return found.empty() ? FoundPlugin{} : found.front();
}

// Fails if a valid plugin is rejected, or its traits are lost.
TEST(PluginSearch, FindsByName) {
  const test::PluginFolder folder;
  folder.add("second", kLibrary);
  folder.add("first", kLibrary, "priority = 5\n");
  folder.write("README", "not a plugin");
  const auto found = find_plugins({{folder.path()}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "first");
  EXPECT_EQ(found[0].problem, "");
  EXPECT_EQ(found[0].described.traits.priority, 5);
  EXPECT_EQ(found[0].library, folder / "libfirst.so");
  EXPECT_EQ(found[1].name, "second");
}

// Fails if world-writable files or folders are accepted.
TEST(PluginSearch, RejectsWorldWritablePaths) {
  const test::PluginFolder folder;
  const auto file = folder.add("mycard", kLibrary);
  ::chmod(file.c_str(), 0666);
  EXPECT_THAT(only_one(folder.path()).problem,
              HasSubstr("mycard.plugin\" is writable by everyone"));
  ::chmod(file.c_str(), 0644);
  ::chmod((folder / "libmycard.so").c_str(), 0777);
  EXPECT_THAT(only_one(folder.path()).problem, HasSubstr("libmycard.so\" is writable by everyone"));
  ::chmod((folder / "libmycard.so").c_str(), 0755);
  EXPECT_EQ(only_one(folder.path()).problem, "");
  ::chmod(folder.path().c_str(), 01777);
  const auto refused = only_one(folder.path());
  EXPECT_EQ(refused.file, folder.path());
  EXPECT_THAT(refused.problem, HasSubstr("chmod go-w"));
  ::chmod(folder.path().c_str(), 0700);
}

// Fails if a link in a trusted folder may point to a world-writable folder.
TEST(PluginSearch, ChecksTargetsOfLinks) {
  const test::PluginFolder open, folder;
  open.add("mycard", kLibrary);
  ::chmod(open.path().c_str(), 0777);
  std::filesystem::create_symlink(open / "libmycard.so", folder / "libmycard.so");
  folder.add_text("mycard", test::plugin_text("mycard", "libmycard.so"));
  EXPECT_THAT(only_one(folder.path()).problem,
              HasSubstr(open.path().string() + "\" is writable by everyone"));
}

// Fails if only the last folder of the path is checked. Anyone who can write a parent folder can
// replace the last one.
TEST(PluginSearch, ChecksTheWholePath) {
  const llm::TemporaryFolder above;
  std::filesystem::create_directories(above / "shared/plugins");
  ::chmod((above / "shared/plugins").c_str(), 0755);
  const auto library = above / "shared/plugins/libmycard.so";
  std::filesystem::copy_file(kLibrary, library);
  ::chmod(library.c_str(), 0755);
  above.write("shared/plugins/mycard.plugin", test::plugin_text("mycard", "libmycard.so"));
  ::chmod((above / "shared/plugins/mycard.plugin").c_str(), 0644);
  ::chmod((above / "shared").c_str(), 0755);
  EXPECT_EQ(only_one(above / "shared/plugins").problem, "");
  for (const auto& path : {above / "shared", above / "shared/plugins", library}) {
    for (const mode_t mode : {0775, 0757}) {
      ::chmod(path.c_str(), mode);
      EXPECT_THAT(only_one(above / "shared/plugins").problem,
                  HasSubstr(path.string() + "\" is writable by "))
          << mode;
    }
    ::chmod(path.c_str(), 0755);
    if (::chown(path.c_str(), 12345, 12345) != 0) continue;
    EXPECT_THAT(only_one(above / "shared/plugins").problem,
                HasSubstr(path.string() + "\" belongs to user 12345"));
    ASSERT_EQ(::chown(path.c_str(), ::geteuid(), ::getegid()), 0);
  }
  EXPECT_EQ(only_one(above / "shared/plugins").problem, "");
}

// Fails if a missing configured folder is ignored, or a missing default folder is reported.
TEST(PluginSearch, InvalidFolders) {
  EXPECT_THAT(only_one("plugins").problem, HasSubstr("is a relative path"));
  EXPECT_THAT(only_one("/nonexistent/plugins").problem, HasSubstr("No such file"));
  EXPECT_THAT(only_one("/proc/self/maps").problem, HasSubstr("is not a folder"));
  EXPECT_TRUE(find_plugins({{"/nonexistent/plugins", /*required=*/false}}).empty());
}

// Fails if a version mismatch is found only after loading the library, or the error lacks one of
// the two versions.
TEST(PluginSearch, RejectsMismatchesInTheTextFile) {
  const struct {
    const char* changed;
    const char* problem;
  } cases[]{
      {"abi = 99\n", "it was built for plugin ABI 99, this AnyAccel for plugin ABI 1"},
      {"anyaccel = 9.9.0\n", "it was built for AnyAccel 9.9.0, this AnyAccel for AnyAccel 0."},
      {"libtorch = 2.99.1\n", "it was built with LibTorch 2.99.1, this AnyAccel with LibTorch 2."},
      {"compiler_abi = m68k\n",
       "it was built for the compiler ABI m68k, this AnyAccel for the compiler ABI"},
      {"sanitizer = memory\n",
       "it was built with the sanitizer memory, this AnyAccel with the sanitizer"},
      {"abi = 99\nlibtorch = 2.99.1\n",
       "99, this AnyAccel for plugin ABI 1; it was built with LibTorch 2.99.1"},
      {"priority = x\n", "priority"},
      {"library = libnone.so\n", "libnone.so\" cannot be used: No such file"},
  };
  for (const auto& one : cases) {
    const test::PluginFolder folder;
    folder.add("mycard", kLibrary, one.changed);
    const auto found = only_one(folder.path());
    EXPECT_THAT(found.problem, HasSubstr(one.problem));
    EXPECT_EQ(found.name, "mycard");
  }
  const test::PluginFolder folder;
  folder.add_text("mycard", test::plugin_text("cuda", "libx.so"));
  EXPECT_THAT(only_one(folder.path()).problem,
              HasSubstr("'cuda' is reserved for AnyAccel or torch"));
  folder.add_text("mycard",
                  "\x7f"
                  "ELF");
  EXPECT_THAT(only_one(folder.path()).problem, HasSubstr("mycard.plugin: [plugin file]"));
}

// Fails if a plugin for a different patch version is rejected. Patch versions do not change the
// plugin interface.
TEST(PluginSearch, PatchVersionsMayDiffer) {
  auto other = own_identity();
  other.libtorch = other.libtorch.substr(0, other.libtorch.rfind('.')) + ".77";
  other.anyaccel = other.anyaccel.substr(0, other.anyaccel.rfind('.')) + ".77+local";
  EXPECT_EQ(identity_mismatch(other, own_identity()), "");
}

// Fails if invalid libraries reach dlopen(), which crashes on some of them.
TEST(PluginSearch, InvalidLibraries) {
  const test::PluginFolder folder;
  const auto whole = [] {
    std::ifstream in(kLibrary, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  EXPECT_EQ(library_problem(kLibrary), "");
  const auto problem = [&](std::string content) {
    return library_problem(folder.write("x.so", content));
  };
  EXPECT_THAT(problem(""), HasSubstr("not an ELF file"));
  EXPECT_THAT(problem("#!/bin/sh\n" + std::string(100, ' ')), HasSubstr("not an ELF file"));
  EXPECT_THAT(problem(whole.substr(0, 70)), HasSubstr("truncated"));
  EXPECT_THAT(problem(whole.substr(0, 4096)), HasSubstr("truncated"));
  std::string other = whole;
  other[18] = 40;  // e_machine: 32-bit ARM
  EXPECT_THAT(problem(other), HasSubstr("a different machine type"));
  EXPECT_THAT(library_problem(ANYACCEL_BUILD_DIR "/build.ninja"), HasSubstr("not an ELF file"));
  EXPECT_THAT(library_problem("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(library_problem("/nonexistent.so"), HasSubstr("No such file"));
}

// Fails if folders in ANYACCEL_PLUGIN_PATH are not searched first, or an empty entry means the
// current folder.
TEST(PluginSearch, Path) {
  const test::ScopedEnv env("ANYACCEL_PLUGIN_PATH", ":/a::/b:");
  const auto path = plugin_search_path();
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0].path, "/a");
  EXPECT_EQ(path[1].path, "/b");
  EXPECT_TRUE(path[1].required);
  EXPECT_THAT(path[2].path.string(), testing::EndsWith("/lib/anyaccel/plugins"));
  EXPECT_FALSE(path[2].required);
}

}  // namespace
}  // namespace anyaccel
