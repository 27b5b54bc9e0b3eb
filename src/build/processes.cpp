#include "build/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/interrupt.h"
#include "base/fork_safe.h"

namespace anyaccel::build {

namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::unavailable, "op builders", {.what = what + ": " + std::strerror(error)});
}

constexpr off_t kMaxOutput = 16 << 20;
constexpr std::size_t kMaxAnswer = 1 << 20;
constexpr const char* kShell = "/bin/sh";
/// Shell script that kills its process group at end-of-file on its standard input. Only this
/// process holds the other end of the pipe.
constexpr const char* kGuard = "read _; kill -s KILL 0";
/// Shell script that runs the program and reports its status on descriptor 3. Exits if its parent
/// is not the process that started it, which means that this process has exited. A parent id of 0
/// means that the parent is outside the PID namespace.
constexpr const char* kRunner =
    "case $PPID in \"$1\"|0) ;; *) exit 125;; esac; shift; \"$@\" 3>&-; echo $? >&3";

/// A pipe whose ends are closed on exec. The descriptors are at least 10, so that they do not
/// collide with the child's standard streams and status descriptor.
struct Pipe {
  int from = -1;
  int to = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot create a pipe", errno);
    from = ::fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
    to = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    if (from < 0 || to < 0) close_both(), fail("cannot create a pipe", error);
  }
  ~Pipe() { close_both(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_one(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  void close_both() {
    close_one(from);
    close_one(to);
  }
};

/// Parses the status that a runner reported; nullopt if the text is not complete yet.
std::optional<int> status_in(const std::string& text) {
  if (!text.ends_with('\n')) return std::nullopt;
  return std::atoi(text.c_str());
}

/// Appends available data to `text`. Returns false at end of file or after an error.
bool read_some(int from, std::string& text) {
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(from, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
}

bool is_gone(pid_t process) {
  const pid_t ended = ::waitpid(process, nullptr, WNOHANG);
  return ended == process || (ended < 0 && errno == ECHILD && ::kill(process, 0) != 0);
}

/// Reads the remaining data that was written before the process exited.
void read_rest(int from, std::string& text) {
  pollfd one{from, POLLIN, 0};
  if (::poll(&one, 1, 0) > 0) read_some(from, text);
}

/// Reaps a process that has exited or was killed. Gives up after a few seconds, because a process
/// that waits for a network file system may be unkillable. If SIGCHLD is ignored, there is nothing
/// to reap.
void reap(pid_t process) {
  for (int i = 0; i < 500; ++i) {
    const pid_t ended = ::waitpid(process, nullptr, WNOHANG);
    if (ended == process || (ended < 0 && errno != EINTR)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(i < 10 ? 1 : 10));
  }
}

/// RAII wrapper for posix_spawn() settings.
struct SpawnSettings {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    // The child must not inherit blocked and ignored signals.
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

pid_t spawn(SpawnSettings& settings, pid_t group, const std::vector<std::string>& command,
            const std::vector<std::string>& environment) {
  ::posix_spawnattr_setpgroup(&settings.attributes, group);
  ::posix_spawnattr_setflags(
      &settings.attributes,
      static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  pid_t process = 0;
  const int error =
      ::posix_spawn(&process, command.at(0).c_str(), &settings.actions, &settings.attributes,
                    pointers(command).data(), pointers(environment).data());
  if (error != 0) fail("cannot start " + command.at(0), error);
  return process;
}

/// Starts `command` through the runner, which writes the status to `report`.
pid_t spawn_runner(SpawnSettings& settings, pid_t group, const std::vector<std::string>& command,
                   const std::vector<std::string>& environment, int report) {
  if (::access(command.at(0).c_str(), X_OK) != 0) fail("cannot start " + command[0], errno);
  ::posix_spawn_file_actions_adddup2(&settings.actions, report, 3);
  std::vector<std::string> all{kShell, "-c", kRunner, "anyaccel", std::to_string(::getpid())};
  all.insert(all.end(), command.begin(), command.end());
  return spawn(settings, group, all, environment);
}

}  // namespace

ProgramOutput::ProgramOutput() {
  const int made = ::memfd_create("anyaccel-build-output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // Descriptors from 10 on do not collide with those that a child gets.
  descriptor_ = made < 0 ? -1 : ::fcntl(made, F_DUPFD_CLOEXEC, 10);
  const int error = errno;
  if (made >= 0) ::close(made);
  if (descriptor_ < 0) fail("cannot allocate memory for the compiler's output", error);
  // Seal the size of the file, so that writes beyond it fail instead of exhausting memory.
  if (::ftruncate(descriptor_, kMaxOutput) == 0)
    ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK);
}

ProgramOutput::~ProgramOutput() { ::close(descriptor_); }

std::string ProgramOutput::text() const {
  // The file position is shared with the program, so it marks the end of the output.
  const auto end = ::lseek(descriptor_, 0, SEEK_CUR);
  std::string out(static_cast<std::size_t>(std::clamp<off_t>(end, 0, kMaxOutput)), '\0');
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  out.resize(done);
  return out;
}

Outcome run_program(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment,
                    const std::function<void()>& waiting) {
  Pipe output, report;
  SpawnSettings settings;
  ::posix_spawn_file_actions_adddup2(&settings.actions, output.to, 1);
  ::posix_spawn_file_actions_adddup2(&settings.actions, output.to, 2);
  const pid_t process = spawn_runner(settings, 0, command, environment, report.to);
  Pipe::close_one(output.to);
  Pipe::close_one(report.to);
  Outcome out;
  std::string text;
  bool open = true, reported = false;
  try {
    while (open || !reported) {
      // Processes that the program left running may keep its output open forever. The loop
      // therefore also ends when the status is known and no output is available.
      pollfd both[] = {{open ? output.from : -1, POLLIN, 0},
                       {reported ? -1 : report.from, POLLIN, 0}};
      const int ready = ::poll(both, 2, 100);
      if (ready < 0 && errno != EINTR) fail("cannot read the output of " + command[0], errno);
      throw_if_interrupted("OpBuilder::load");
      if (waiting) waiting();
      if (ready <= 0 && !reported && is_gone(process))
        reported = true, read_rest(report.from, text);
      if (ready == 0 && reported) break;
      if (ready <= 0) continue;
      if (both[0].revents != 0) open = read_some(output.from, out.output);
      if (out.output.size() > kMaxAnswer) out.output.resize(kMaxAnswer);
      if (both[1].revents != 0) reported = !read_some(report.from, text) || text.ends_with('\n');
    }
  } catch (...) {
    ::kill(-process, SIGKILL);
    reap(process);
    throw;
  }
  reap(process);
  const auto status = status_in(text);
  if (!status)
    throw Error(ErrorCode::interrupted, "op builders", {.what = command[0] + " was killed"});
  out.status = *status;
  return out;
}

ProcessGroup::ProcessGroup() {
  Pipe life;
  SpawnSettings settings;
  ::posix_spawn_file_actions_adddup2(&settings.actions, life.from, 0);
  // The guard must not keep this process's standard output and error open.
  ::posix_spawn_file_actions_addopen(&settings.actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&settings.actions, 2, "/dev/null", O_WRONLY, 0);
  guard_ = spawn(settings, 0, {kShell, "-c", kGuard}, {});
  alive_ = std::exchange(life.to, -1);
  close_in_children(alive_);
}

ProcessGroup::~ProcessGroup() {
  ::kill(-guard_, SIGKILL);
  forget_in_children(alive_);
  ::close(alive_);
  for (auto& one : running_) {
    ::close(one.report);
    reap(one.process);
  }
  reap(guard_);
}

pid_t ProcessGroup::start(const std::vector<std::string>& command,
                          const std::vector<std::string>& environment,
                          const ProgramOutput& output) {
  Pipe report;
  SpawnSettings settings;
  ::posix_spawn_file_actions_adddup2(&settings.actions, output.descriptor(), 1);
  ::posix_spawn_file_actions_adddup2(&settings.actions, output.descriptor(), 2);
  const pid_t process = spawn_runner(settings, guard_, command, environment, report.to);
  running_.push_back({process, std::exchange(report.from, -1)});
  return process;
}

ProcessGroup::Ended ProcessGroup::end(std::vector<Running>::iterator one, bool lost) {
  const auto status = status_in(one->text);
  if (!status && !lost) return {};
  if (!status)
    throw Error(ErrorCode::interrupted, "op builders", {.what = "the build processes were killed"});
  const Ended out{one->process, *status};
  ::close(one->report);
  reap(one->process);
  running_.erase(one);
  return out;
}

ProcessGroup::Ended ProcessGroup::wait(int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    throw_if_interrupted("OpBuilder::load");
    std::vector<pollfd> reports;
    for (const auto& one : running_) reports.push_back({one.report, POLLIN, 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())
            .count();
    const int ready = ::poll(reports.data(), reports.size(),
                             static_cast<int>(std::clamp<long long>(left, 0, 100)));
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const auto one = running_.begin() + static_cast<std::ptrdiff_t>(i);
      bool lost = false;
      if (reports[i].revents != 0) {
        lost = !read_some(one->report, one->text);
      } else if (ready == 0) {
        // A forked child of this process may hold the write end of the pipe. If the runner was
        // killed, the pipe then never reports end of file.
        lost = is_gone(one->process);
        if (lost) read_rest(one->report, one->text);
      }
      if (const auto ended = end(one, lost); ended.process != 0) return ended;
    }
    if (std::chrono::steady_clock::now() >= until) return {};
  }
}

}  // namespace anyaccel::build
