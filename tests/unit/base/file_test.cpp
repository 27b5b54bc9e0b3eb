#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "anyaccel/error.h"

namespace anyaccel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("anyaccel_file_test_" + std::to_string(::getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})); }
  fs::path folder;
};

// Breaks when binary content (zero bytes, no final newline) is not kept.
TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string content("a\0b\nc", 5);
  write_file_atomically(folder / "f", content);
  EXPECT_EQ(read_file(folder / "f"), content);
  write_file_atomically(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_EQ(entries(), 1u);
}

// Breaks when the reader trusts st_size, which is 0 under /proc.
TEST_F(FileTest, ReadsFilesWithoutASize) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("VmRSS")); }

// Breaks when a missing file and an unreadable one are not told apart, or the message has no path.
TEST_F(FileTest, NamesWhatItCannotRead) {
  try {
    read_file(folder / "missing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), HasSubstr((folder / "missing").string()));
  }
  try {
    read_file(folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("directory"));
  }
  EXPECT_FALSE(try_read_file(folder / "missing").has_value());
}

// Breaks when a failing write touches the old file or leaves its own behind.
TEST_F(FileTest, AFullDiskLeavesTheOldFile) {
  write_file_atomically(folder / "f", "old");
  // A limit on the file size fails write() as a full disk does, without needing one.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  ErrorCode code{};
  try {
    write_file_atomically(folder / "f", std::string(5000, 'x'));
  } catch (const Error& error) {
    message = error.what();
    code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::io);
  EXPECT_THAT(message, HasSubstr((folder / "f").string()));
  EXPECT_THAT(message, HasSubstr("too large"));
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_EQ(entries(), 1u);
}

// Breaks when an object that was never committed changes the file.
TEST_F(FileTest, WithoutCommitNothingHappens) {
  {
    AtomicFile file(folder / "f");
    file.write("half");
  }
  EXPECT_EQ(entries(), 0u);
}

// Breaks when a new file ignores the umask or a replaced one loses its mode.
TEST_F(FileTest, KeepsModes) {
  write_file_atomically(folder / "f", "a");
  struct stat info {};
  ASSERT_EQ(::stat((folder / "f").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 07777, 0666 & ~mask);
  ASSERT_EQ(::chmod((folder / "f").c_str(), 0640), 0);
  write_file_atomically(folder / "f", "b");
  ASSERT_EQ(::stat((folder / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

// Breaks when a link is replaced by a file of its own.
TEST_F(FileTest, FollowsLinks) {
  write_file_atomically(folder / "real", "a");
  fs::create_symlink(folder / "real", folder / "link");
  write_file_atomically(folder / "link", "b");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real"), "b");
}

// Breaks when writing into a folder that is not there gives no path.
TEST_F(FileTest, NamesTheFolderThatIsMissing) {
  try {
    write_file_atomically(folder / "no" / "f", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder / "no" / "f").string()));
  }
}

}  // namespace
}  // namespace anyaccel
