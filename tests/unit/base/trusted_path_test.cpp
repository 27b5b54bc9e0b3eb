// Tests that code is loaded only from trusted paths.
#include "base/trusted_path.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <functional>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kStranger = 12345;

struct TrustedPath : testing::Test {
  llm::TemporaryFolder temporary;  // in /tmp, which is sticky and world-writable
  fs::path folder = temporary / "above/folder";
  fs::path file = temporary.write("above/folder/file", "code");

  TrustedPath() {
    for (const auto& path : {temporary / "above", folder}) ::chmod(path.c_str(), 0755);
    ::chmod(file.c_str(), 0644);
  }
  std::string problem() const { return trust_problem(file, TrustedKind::file); }
};

// Fails if an ordinary file or folder is rejected, for example because its parent /tmp is
// world-writable and sticky.
TEST_F(TrustedPath, OrdinaryPaths) {
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(trust_problem(folder, TrustedKind::folder), "");
  EXPECT_EQ(trust_problem(folder.string() + "/", TrustedKind::folder), "");
  EXPECT_EQ(trust_problem(folder / "./../folder/file", TrustedKind::file), "");
  EXPECT_EQ(trust_problem("/", TrustedKind::folder), "");
  EXPECT_EQ(trust_problem("/usr/bin/env", TrustedKind::file), "");
}

// Fails if a path is trusted although its group or other users can write the file or a parent
// folder.
TEST_F(TrustedPath, WritableByOthers) {
  for (const auto& path : {file, folder, temporary / "above", temporary.path()}) {
    struct stat before {};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    for (const mode_t right : {S_IWOTH, S_IWGRP}) {
      ::chmod(path.c_str(), before.st_mode | right);
      EXPECT_THAT(problem(), HasSubstr(path.string() + "\" is writable by ")) << right;
      EXPECT_THAT(problem(), HasSubstr(right == S_IWOTH ? "everyone" : "group ")) << right;
    }
    ::chmod(path.c_str(), before.st_mode & 07777);
    EXPECT_EQ(problem(), "");
  }
}

// Fails if code directly inside a sticky, world-writable folder is trusted. Everyone may add files
// to such a folder.
TEST_F(TrustedPath, StickyFolders) {
  ::chmod((temporary / "above").c_str(), 01777);
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(trust_problem(folder, TrustedKind::folder), "");
  ::chmod(folder.c_str(), 01777);
  EXPECT_THAT(trust_problem(folder, TrustedKind::folder), HasSubstr("writable by everyone"));
}

// Fails if a path with a component that another user owns is trusted. The owner can change the
// component's mode at any time.
TEST_F(TrustedPath, OtherOwners) {
  if (::chown(file.c_str(), kStranger, kStranger) != 0)
    GTEST_SKIP() << "only root can change a file's owner";
  EXPECT_THAT(problem(), HasSubstr("file\" belongs to user 12345"));
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((temporary / "above").c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(problem(), HasSubstr("above\" belongs to user 12345"));
  // Even in a sticky folder, the folder's owner may rename its entries.
  ::chmod((temporary / "above").c_str(), 01755);
  EXPECT_THAT(problem(), HasSubstr("above\" belongs to user 12345"));
}

// Fails if a symbolic link bypasses the checks through its owner or its target.
TEST_F(TrustedPath, Links) {
  fs::create_directory_symlink("above", temporary / "relative");
  EXPECT_EQ(trust_problem(temporary / "relative/folder/file", TrustedKind::file), "");
  EXPECT_EQ(trust_problem(temporary / "relative/../above/folder", TrustedKind::folder), "");
  fs::create_symlink(file, temporary / "absolute");
  EXPECT_EQ(trust_problem(temporary / "absolute", TrustedKind::file), "");
  ::chmod((temporary / "above").c_str(), 0777);
  EXPECT_THAT(trust_problem(temporary / "absolute", TrustedKind::file),
              HasSubstr("above\" is writable"));
  EXPECT_THAT(trust_problem(temporary / "relative/folder/file", TrustedKind::file),
              HasSubstr("above\" is writable"));
  ::chmod((temporary / "above").c_str(), 0755);
  fs::create_symlink("circle", temporary / "circle");
  EXPECT_THAT(trust_problem(temporary / "circle", TrustedKind::file),
              HasSubstr("cannot be followed"));
  fs::create_symlink("nothing", temporary / "dangling");
  EXPECT_THAT(trust_problem(temporary / "dangling", TrustedKind::file), HasSubstr("No such file"));
  if (::lchown((temporary / "absolute").c_str(), kStranger, kStranger) != 0) return;
  EXPECT_THAT(trust_problem(temporary / "absolute", TrustedKind::file),
              HasSubstr("absolute\" belongs to user 12345"));
}

// Fails if a nonexistent folder is rejected although it may be created safely, or is accepted
// although other users could place links in its parent.
TEST_F(TrustedPath, NonexistentFolders) {
  EXPECT_EQ(trust_problem(folder / "a/b", TrustedKind::future_folder), "");
  EXPECT_EQ(
      trust_problem(fs::temp_directory_path() / "anyaccel-no-such", TrustedKind::future_folder),
      "");
  ::chmod(folder.c_str(), 0777);
  EXPECT_THAT(trust_problem(folder / "a/b", TrustedKind::future_folder),
              HasSubstr("folder\" is writable"));
}

// Fails if a path of the wrong kind or a relative path is accepted.
TEST_F(TrustedPath, Kinds) {
  EXPECT_THAT(trust_problem(file, TrustedKind::folder), HasSubstr("is not a folder"));
  EXPECT_THAT(trust_problem(folder, TrustedKind::file), HasSubstr("is not a regular file"));
  EXPECT_THAT(trust_problem("/dev/null", TrustedKind::file), HasSubstr("dev/null\" is"));
  EXPECT_THAT(trust_problem("file", TrustedKind::file), HasSubstr("not an absolute path"));
  EXPECT_THAT(trust_problem(file / "more", TrustedKind::file), HasSubstr("Not a directory"));
}

int in_child_as(uid_t user, gid_t group, const std::function<bool()>& question) {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0
                ? 9
                : question());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

// Fails if folders that a user's private group can write are rejected, or another group counts as
// private.
TEST_F(TrustedPath, PrivateGroups) {
  const auto* const user = ::getpwnam("daemon");  // the only member of the group "daemon"
  if (user == nullptr || ::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const uid_t id = user->pw_uid;
  const gid_t group = user->pw_gid;
  for (const auto& path : {temporary.path(), temporary / "above", folder, file}) {
    ASSERT_EQ(::chown(path.c_str(), id, group), 0);
    ::chmod(path.c_str(), 0775);
  }
  const auto trusted = [&] { return problem().empty(); };
  EXPECT_EQ(in_child_as(id, group, trusted), 1);
  ASSERT_EQ(::chown(folder.c_str(), id, 0), 0);
  EXPECT_EQ(in_child_as(id, group, trusted), 0) << "root's group";
  ASSERT_EQ(::chown(folder.c_str(), id, 54321), 0);
  EXPECT_EQ(in_child_as(id, group, trusted), 0) << "a group without a name";
}

// Fails if an environment variable can select a library file that other users can modify.
TEST_F(TrustedPath, LibrariesFromVariables) {
  const test::ScopedEnv path("ANYACCEL_TEST_LIBRARY", file.c_str());
  EXPECT_EQ(env_library("ANYACCEL_TEST_LIBRARY"), file.string());
  ::chmod(folder.c_str(), 0777);
  EXPECT_ERROR(env_library("ANYACCEL_TEST_LIBRARY"), unavailable, "[ANYACCEL_TEST_LIBRARY] ");
  const test::ScopedEnv name("ANYACCEL_TEST_LIBRARY", "libx.so.1");
  EXPECT_EQ(env_library("ANYACCEL_TEST_LIBRARY"), "libx.so.1");
  const test::ScopedEnv none("ANYACCEL_TEST_LIBRARY", nullptr);
  EXPECT_EQ(env_library("ANYACCEL_TEST_LIBRARY"), std::nullopt);
}

}  // namespace
}  // namespace anyaccel
