#include "core/plugin_trial.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "anyaccel/error.h"
#include "anyaccel/interrupt.h"
#include "base/fork_safe.h"
#include "base/untrusted_text.h"

// A trial uses two processes. The worker runs the library. Its parent, the keeper, is a subreaper:
// all processes that the worker starts remain descendants of the keeper, even in a new session, and
// the keeper kills them before it exits.

namespace anyaccel {

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kDone = 'd';
constexpr char kRefused = 'r';
constexpr char kStage = 's';
/// Maximum size of the reason in bytes. About this many bytes are kept from the end of the worker's
/// output.
constexpr std::size_t kMaxText = 64 << 10;
/// A library that writes more than this while it is opened probably never stops writing.
constexpr std::size_t kMaxOutput = 16 << 20;
/// Time limit for the keeper to kill the worker's remaining processes.
constexpr std::chrono::seconds kEndWithin{5};

/// Descriptor to which the worker writes its verdict; -1 in all other processes.
int own_verdict = -1;

/// A pipe whose ends are closed on exec and do not occupy descriptors 0 to 2.
struct Pipe {
  int from = -1;
  int to = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    from = ::fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
    to = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    for (const int end : ends) ::close(end);
  }
  ~Pipe() { close_one(from), close_one(to); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool made() const { return from >= 0 && to >= 0; }
  static void close_one(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

struct Pipes {
  Pipe output;   ///< output of the worker and its children
  Pipe verdict;  ///< written by the worker: stages, then kDone, or kRefused and the reason
  /// Written by the keeper after all of the worker's processes have exited: the worker's exit
  /// status.
  Pipe report;
  Pipe life;  ///< closing it makes the keeper kill the worker's processes
};

void send(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(pipe, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void send_failure(std::string_view why) {
  send(own_verdict, kRefused + std::string(why.substr(0, kMaxText)));
}

[[noreturn]] void run_worker(const std::function<void()>& work, const Pipes& pipes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Capture the library's output, which becomes part of the reason. The library must not read this
  // program's input.
  ::dup2(pipes.output.to, STDOUT_FILENO);
  ::dup2(pipes.output.to, STDERR_FILENO);
  if (const int none = ::open("/dev/null", O_RDONLY | O_CLOEXEC); none >= 0)
    ::dup2(none, STDIN_FILENO);
  own_verdict = pipes.verdict.to;
  try {
    work();
    send(own_verdict, std::string_view(&kDone, 1));
  } catch (const std::exception& error) {
    send_failure(error.what());
  } catch (...) {
    send_failure("it threw something that is not a std::exception");
  }
  ::_exit(0);  // do not run the parent's destructors
}

/// Kills the children of this process. Their children are then reparented to this process, so
/// repeated calls kill all descendants.
void kill_children() {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return;
  const pid_t own = ::getpid();
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    std::array<char, 512> text{};
    const int file =
        ::open(("/proc/" + std::string(entry->d_name) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t count = file < 0 ? -1 : ::read(file, text.data(), text.size() - 1);
    if (file >= 0) ::close(file);
    // The format is "PID (NAME) STATE PPID"; NAME may contain any characters.
    const char* behind = count <= 0 ? nullptr : std::strrchr(text.data(), ')');
    char state = 0;
    int parent = 0;
    if (behind != nullptr && std::sscanf(behind + 1, " %c %d", &state, &parent) == 2 &&
        parent == own)
      ::kill(process, SIGKILL);
  }
  ::closedir(folder);
}

[[noreturn]] void run_keeper(const std::function<void()>& work, Pipes& pipes) {
  // Use a separate process group, because the parent handles Ctrl-C. The parent's signal handlers
  // must not run here.
  ::setpgid(0, 0);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    const bool known = ::sigaction(number, nullptr, &action) == 0;
    if (known && (action.sa_handler != SIG_IGN || number == SIGCHLD)) std::signal(number, SIG_DFL);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Pipe::close_one(pipes.life.to);
  const pid_t worker = ::fork();
  if (worker == 0) {
    Pipe::close_one(pipes.report.to);
    Pipe::close_one(pipes.life.from);
    run_worker(work, pipes);
  }
  if (worker < 0) ::_exit(1);
  // Only the worker may hold the write ends of these pipes, because the reader waits until they are
  // closed.
  Pipe::close_one(pipes.verdict.to);
  Pipe::close_one(pipes.output.to);
  int status = 0;
  pollfd life{.fd = pipes.life.from, .events = POLLIN, .revents = 0};
  for (int pause = 1;; pause = std::min(pause * 2, 10)) {
    if (::waitpid(worker, &status, WNOHANG) == worker) break;
    if (::poll(&life, 1, pause) > 0) {
      ::kill(worker, SIGKILL);
      while (::waitpid(worker, &status, 0) < 0 && errno == EINTR) continue;
      break;
    }
  }
  for (const auto end = Clock::now() + kEndWithin; Clock::now() < end;) {
    kill_children();
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (ended < 0 && errno == ECHILD) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  send(pipes.report.to, {reinterpret_cast<const char*>(&status), sizeof status});
  ::_exit(0);
}

/// Appends available data to `out` and keeps only its last part. Returns false at end-of-file.
bool read_some(int pipe, std::string& out, std::size_t& all) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  all += static_cast<std::size_t>(count);
  out.append(buffer.data(), static_cast<std::size_t>(count));
  if (out.size() > 2 * kMaxText) out.erase(0, out.size() - kMaxText);
  return true;
}

struct Trial {
  std::string output, verdict, report;
  std::size_t bytes = 0;  ///< total size of the output
  std::string stopped;    ///< reason why the trial was stopped; empty if it was not
};

/// Reads the pipes until the keeper reports.
void receive(Pipes& pipes, double seconds, Trial& trial, const std::function<void()>& release) {
  const bool limited = seconds > 0;
  auto end = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const auto stop = [&](std::string why) {
    trial.stopped = std::move(why);
    release();
    end = Clock::now() + 2 * kEndWithin;
  };
  std::size_t ignored = 0;
  std::array<pollfd, 3> events{{{pipes.output.from, POLLIN, 0},
                                {pipes.verdict.from, POLLIN, 0},
                                {pipes.report.from, POLLIN, 0}}};
  for (;;) {
    for (auto& event : events) event.revents = 0;
    ::poll(events.data(), events.size(), 100);
    if (events[0].revents != 0 && !read_some(events[0].fd, trial.output, trial.bytes))
      events[0].fd = -1;
    if (events[1].revents != 0 && !read_some(events[1].fd, trial.verdict, ignored))
      events[1].fd = -1;
    if (events[2].revents != 0) {
      if (read_some(events[2].fd, trial.report, ignored) && trial.report.size() < sizeof(int))
        continue;
      break;
    }
    if (!trial.stopped.empty()) {
      if (Clock::now() >= end) return;
      continue;
    }
    if (trial.bytes > kMaxOutput)
      stop("it wrote more than " + std::to_string(kMaxOutput >> 20) + " MiB of output in a trial");
    if (limited && Clock::now() >= end)
      stop("took longer than " + std::to_string(static_cast<int>(seconds)) + " s in a trial");
    try {
      throw_if_interrupted("plugin");
    } catch (const Error& error) {
      stop(error.what());
    }
  }
  // All processes have exited, so the pipes contain the complete output.
  for (auto& event : events) event.revents = 0;
  while (::poll(events.data(), 2, 0) > 0) {
    if (events[0].revents != 0 && !read_some(events[0].fd, trial.output, trial.bytes))
      events[0].fd = -1;
    if (events[1].revents != 0 && !read_some(events[1].fd, trial.verdict, ignored))
      events[1].fd = -1;
  }
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  const auto start = text.find_last_of('\n');
  text = start == std::string::npos ? text : text.substr(start + 1);
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

std::string ended_by(int status, const std::string& output) {
  std::string out = WIFSIGNALED(status)
                        ? std::string("it terminated its process: ") + ::strsignal(WTERMSIG(status))
                        : std::string("it terminated its process");
  if (const auto command = last_line(output); !command.empty()) out += ", " + quoted_text(command);
  return out;
}

/// Removes the stages from the beginning of `verdict` and returns the last one.
std::string take_stages(std::string& verdict) {
  std::string stage;
  for (std::size_t end = 0;
       verdict.starts_with(kStage) && (end = verdict.find('\n')) != verdict.npos;) {
    stage = verdict.substr(1, end - 1);
    verdict.erase(0, end + 1);
  }
  return stage;
}

}  // namespace

void begin_trial_stage(const char* name) {
  if (own_verdict >= 0) send(own_verdict, kStage + std::string(name) + "\n");
}

std::string run_in_trial(const std::function<void()>& work, double seconds) {
  Pipes pipes;
  // If the trial cannot be set up, loading the library directly may still work.
  for (const auto* pipe : {&pipes.output, &pipes.verdict, &pipes.report, &pipes.life})
    if (!pipe->made()) return {};
  // Close the pipe in children that other threads fork in the meantime. Otherwise the keeper would
  // live as long as such a child.
  const bool registered = close_in_children(pipes.life.to);
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    if (registered) pipes.life.to = -1;  // the fork() handler has closed it
    run_keeper(work, pipes);
  }
  const auto release = [&] {
    if (registered && pipes.life.to >= 0) forget_in_children(pipes.life.to);
    Pipe::close_one(pipes.life.to);
  };
  if (keeper < 0) return release(), std::string();
  for (int* end : {&pipes.output.to, &pipes.verdict.to, &pipes.report.to, &pipes.life.from})
    Pipe::close_one(*end);
  Trial trial;
  receive(pipes, seconds, trial, release);
  release();
  if (trial.report.size() < sizeof(int)) ::kill(keeper, SIGKILL);
  // A program that reaps all its children may already have reaped this one.
  while (::waitpid(keeper, nullptr, 0) < 0 && errno == EINTR) continue;
  const auto stage = take_stages(trial.verdict);
  if (trial.verdict.starts_with(kRefused)) return printable_text(trial.verdict.substr(1), 2000);
  if (trial.verdict.starts_with(kDone)) return {};
  if (trial.stopped.starts_with("took"))
    return (stage.empty() ? "it" : stage) + " " + trial.stopped;
  if (!trial.stopped.empty()) return trial.stopped;
  if (trial.report.size() < sizeof(int)) return "another process killed its trial";
  int status = 0;
  std::memcpy(&status, trial.report.data(), sizeof status);
  return ended_by(status, trial.output);
}

}  // namespace anyaccel
