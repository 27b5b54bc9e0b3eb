// Tests the progress messages of long builds.
#include "build/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace anyaccel::build {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

/// Runs a child that shows progress for more than a second, with `error` as its standard error.
/// Returns all text that can be read from `out`.
std::string progress_output(int error, int out) {
  const auto child = ::fork();
  if (child == 0) {
    ::dup2(error, STDERR_FILENO);
    {
      Progress progress("an_op");
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1100)) {
        progress.show("compiled 1 of 2 sources");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    ::_exit(0);
  }
  ::close(error);
  std::string text;
  char bytes[256];
  // read() fails after the last descriptor of the terminal's other end is closed.
  for (ssize_t count = 0; (count = ::read(out, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(count));
  ::close(out);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return text;
}

// Fails if a long build shows no progress on a terminal, or the progress line is not erased at the
// end.
TEST(Progress, ShowsALineOnATerminal) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "no pseudo-terminals are available";
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  const int other = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(other, 0);
  const auto text = progress_output(other, terminal);
  EXPECT_THAT(text, HasSubstr("anyaccel: an_op: compiled 1 of 2 sources, 1 s"));
  EXPECT_THAT(text, EndsWith("\r\033[K"));
}

// Fails if progress is printed when standard error is not a terminal.
TEST(Progress, IsSilentElsewhere) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  EXPECT_EQ(progress_output(pipe[1], pipe[0]), "");
}

}  // namespace
}  // namespace anyaccel::build
