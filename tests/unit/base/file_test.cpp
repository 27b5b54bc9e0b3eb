#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "anyaccel/error.h"

namespace anyaccel {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("anyaccel_file_test_" + std::to_string(::getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
  }
  fs::path folder;
};

// Fails if binary content (NUL bytes, no final newline) is not preserved.
TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string content("a\0b\nc", 5);
  write_file_atomically(folder / "f", content);
  EXPECT_EQ(read_file(folder / "f"), content);
  write_file_atomically(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_EQ(entries(), 1u);
}

// Fails if the reader trusts st_size, which is 0 for files in /proc.
TEST_F(FileTest, ReadsFilesWithoutASize) {
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("VmRSS"));
}

// Fails if missing and unreadable files give the same error code, or the error lacks the path.
TEST_F(FileTest, ErrorNamesTheUnreadableFile) {
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

std::string error_of(const fs::path& path, ErrorCode code, std::size_t limit = kMaxTextFile,
                     std::string (*read)(const fs::path&, std::size_t) = read_file) {
  try {
    read(path, limit);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "it was read";
}

// Fails if a FIFO, device or socket is opened as a regular file. Reading from it may block, or
// never reach end-of-file.
TEST_F(FileTest, OpensRegularFilesOnly) {
  ::alarm(20);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder / "zero");
  EXPECT_THAT(error_of(folder / "fifo", ErrorCode::io),
              AllOf(HasSubstr("a FIFO"), HasSubstr("/fifo")));
  EXPECT_THAT(error_of(folder / "zero", ErrorCode::io), HasSubstr("a character device"));
  EXPECT_THAT(error_of("/dev/null", ErrorCode::io), HasSubstr("a character device"));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(error_of(folder / "socket", ErrorCode::io), HasSubstr("a socket"));
  ::close(listener);
  for (const char* name : {"fifo", "zero", "socket", "."})
    EXPECT_FALSE(try_read_file(folder / name).has_value());
  ::alarm(0);
}

// Fails if a file larger than the limit is read into memory.
TEST_F(FileTest, ReadsNoMoreThanTheLimit) {
  write_file_atomically(folder / "f", "12345678");
  EXPECT_EQ(read_file(folder / "f", 8), "12345678");
  EXPECT_THAT(error_of(folder / "f", ErrorCode::corrupt, 7), HasSubstr("at most 7 bytes"));
  EXPECT_FALSE(try_read_file(folder / "f", 7).has_value());
  fs::resize_file(folder / "f", std::uintmax_t{1} << 42);
  EXPECT_THAT(error_of(folder / "f", ErrorCode::corrupt), HasSubstr("too large"));
  // This file reports a size of 0.
  EXPECT_THAT(error_of("/proc/self/status", ErrorCode::corrupt, 100),
              HasSubstr("at most 100 bytes"));
}

// Fails if pipes are rejected as user-supplied inputs, or devices such as /dev/zero are accepted.
TEST_F(FileTest, InputsMayBePipes) {
  ::alarm(20);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(folder / "fifo") << "text"; });
  EXPECT_EQ(read_input(folder / "fifo"), "text");
  writer.join();
  EXPECT_EQ(read_input("/dev/null"), "");
  EXPECT_THAT(error_of("/dev/zero", ErrorCode::io, 100, read_input),
              HasSubstr("a regular file or a pipe"));
  EXPECT_THAT(error_of(folder, ErrorCode::io, 100, read_input), HasSubstr("directory"));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "123456789", 9), 9);
  const auto path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_THAT(error_of(path, ErrorCode::corrupt, 8, read_input), HasSubstr("at most 8 bytes"));
  ::close(ends[0]);
  ::close(ends[1]);
  ::alarm(0);
}

// Fails if a failed write changes the old file or leaves a temporary file.
TEST_F(FileTest, FailedWriteKeepsTheOldFile) {
  write_file_atomically(folder / "f", "old");
  // A file size limit makes write() fail, as on a full disk.
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

// Fails if an AtomicFile that is never committed creates a file.
TEST_F(FileTest, NothingIsWrittenWithoutCommit) {
  {
    AtomicFile file(folder / "f");
    file.write("half");
  }
  EXPECT_EQ(entries(), 0u);
}

// Fails if a new file ignores the umask, or a replaced file loses its mode.
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

// Fails if a symbolic link is replaced by a regular file.
TEST_F(FileTest, FollowsLinks) {
  write_file_atomically(folder / "real", "a");
  fs::create_symlink(folder / "real", folder / "link");
  write_file_atomically(folder / "link", "b");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real"), "b");
}

// Fails if the error about a missing folder lacks the folder's path.
TEST_F(FileTest, ErrorNamesTheMissingFolder) {
  try {
    write_file_atomically(folder / "no" / "f", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder / "no" / "f").string()));
  }
}

}  // namespace
}  // namespace anyaccel
