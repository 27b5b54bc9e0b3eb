#include "build/processes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "anyaccel/error.h"
#include "base/file.h"

namespace anyaccel::build {

namespace {

[[noreturn]] void refuse(const std::string& what, int error) {
  throw Error(ErrorCode::unavailable, "op builders", {.what = what + ": " + std::strerror(error)});
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// The guard's whole life. Only calls that are allowed after fork() in a process with threads.
[[noreturn]] void guard_group(pid_t parent, const sigset_t& signals) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);
    // Locks and pipes of the process must not stay open through us.
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, 0U, ~0U, 0U) != 0)
#endif
    for (int i = 0; i < 1024; ++i) ::close(i);
  for (;;) {
    if (::sigwaitinfo(&signals, nullptr) == SIGTERM) ::kill(0, SIGKILL);
  }
}

/// Settings of posix_spawn, freed at the end.
struct SpawnSettings {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    // What the process blocks or ignores is not the compiler's.
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

pid_t spawn(SpawnSettings& settings, short flags, const std::vector<std::string>& words,
            const std::vector<std::string>& environment) {
  ::posix_spawnattr_setflags(&settings.attributes,
                             static_cast<short>(flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  pid_t process = 0;
  const int error = ::posix_spawn(&process, words.at(0).c_str(), &settings.actions, &settings.attributes,
                                  pointers(words).data(), pointers(environment).data());
  if (error != 0) refuse("cannot start " + words.at(0), error);
  return process;
}

void sleep_milliseconds(int count) {
  const timespec time{.tv_sec = count / 1000, .tv_nsec = count % 1000 * 1'000'000L};
  ::nanosleep(&time, nullptr);
}

}  // namespace

Outcome run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse("no pipe", errno);
  pid_t process = 0;
  try {
    SpawnSettings settings;
    ::posix_spawn_file_actions_adddup2(&settings.actions, ends[1], 1);
    ::posix_spawn_file_actions_adddup2(&settings.actions, ends[1], 2);
    process = spawn(settings, 0, words, environment);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  Outcome out;
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(ends[0], buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    out.output.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(process, &status, 0)) < 0 && errno == EINTR) {
  }
  // Where the process ignores SIGCHLD nobody is told; what the program wrote then decides.
  out.status = ended == process ? exit_code(status) : (out.output.empty() ? 1 : 0);
  return out;
}

ProcessGroup::ProcessGroup() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  guard_ = ::fork();
  if (guard_ == 0) guard_group(parent, all);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (guard_ < 0) refuse("no process can be started", error);
  ::setpgid(guard_, guard_);  // whoever of the two comes first
}

ProcessGroup::~ProcessGroup() {
  ::kill(-guard_, SIGKILL);
  while (::waitpid(-guard_, nullptr, 0) > 0 || errno == EINTR) {
  }
}

pid_t ProcessGroup::start(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                          const std::filesystem::path& output) {
  SpawnSettings settings;
  ::posix_spawn_file_actions_addopen(&settings.actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&settings.actions, 1, 2);
  ::posix_spawnattr_setpgroup(&settings.attributes, guard_);
  running_.push_back(spawn(settings, POSIX_SPAWN_SETPGROUP, words, environment));
  return running_.back();
}

ProcessGroup::Ended ProcessGroup::forget(pid_t process) {
  std::erase(running_, process);
  return {process, -1};
}

ProcessGroup::Ended ProcessGroup::wait(int milliseconds) {
  for (int waited = 0;; waited += 5) {
    int status = 0;
    const pid_t process = ::waitpid(-guard_, &status, WNOHANG);
    if (process > 0 && process != guard_) {
      std::erase(running_, process);
      return {process, exit_code(status)};
    }
    for (const pid_t one : running_)
      if (process == 0 && ::kill(one, 0) != 0 && errno == ESRCH) return forget(one);
    if (process == guard_ || (process < 0 && errno == ECHILD))
      throw Error(ErrorCode::interrupted, "op builders",
                  {.what = "the processes of the build were ended from outside"});
    if (waited >= milliseconds) return {};
    sleep_milliseconds(5);
  }
}

std::string shell_quoted(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::strchr("_-+=./,:@%", c) != nullptr;
    });
    if (!out.empty()) out += ' ';
    if (plain) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

}  // namespace anyaccel::build
