#include "cli/front/profile_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/untrusted_text.h"

namespace anyaccel::cli {
namespace {

volatile std::sig_atomic_t child_process = 0;
volatile std::sig_atomic_t signal_passed_on = 0;

void pass_on(int signal) {
  signal_passed_on = 1;
  if (child_process > 0) ::kill(child_process, signal);
}

}  // namespace

int run_and_wait(std::vector<std::string> words, ErrorText failure, unsigned seconds) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int started[2];
  if (::pipe2(started, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io, "profile",
                {.what = "cannot create a pipe", .got = std::strerror(errno)});
  std::fflush(stdout);
  // The terminal's signals reach the program directly. Signals sent to this process are forwarded.
  struct sigaction pass {};
  pass.sa_handler = pass_on;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before[4];
  const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  for (int i = 0; i < 4; ++i) ::sigaction(signals[i], i < 2 ? &ignore : &pass, &before[i]);
  const pid_t child = ::fork();
  int reason = child < 0 ? errno : 0;
  if (child == 0) {
    for (int i = 0; i < 4; ++i) ::sigaction(signals[i], &before[i], nullptr);
    if (seconds > 0) ::alarm(seconds);
    ::execvp(arguments[0], arguments.data());
    reason = errno;
    static_cast<void>(!::write(started[1], &reason, sizeof reason));
    ::_exit(127);
  }
  child_process = child;
  ::close(started[1]);
  ssize_t got = 0;
  do got = ::read(started[0], &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  ::close(started[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child_process = 0;
  for (int i = 0; i < 4; ++i) ::sigaction(signals[i], &before[i], nullptr);
  if (reason == 0) return status;
  failure.got = words[0] + ": " + std::strerror(reason);
  throw Error(reason == ENOENT ? ErrorCode::not_found : ErrorCode::io, "profile", failure);
}

bool run_afterwards(std::vector<std::string> words, ErrorText failure, unsigned seconds) {
  try {
    const int status = run_and_wait(std::move(words), std::move(failure), seconds);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "anyaccel: error: %s\n", printable_text(error.what()).c_str());
    return false;
  }
}

bool asked_to_end() { return signal_passed_on != 0; }

int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  std::fflush(stdout);
  // A core dump of this process would overwrite the program's. RLIMIT_CORE does not prevent it if
  // the kernel pipes core dumps to a program.
  ::prctl(PR_SET_DUMPABLE, 0);
  std::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace anyaccel::cli
