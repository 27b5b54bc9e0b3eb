#include "launch/run_job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "anyaccel/error.h"
#include "base/log.h"
#include "launch/guard.h"
#include "launch/start_timeout.h"

namespace anyaccel::launch {

namespace {

/// If this process's output is blocked after a signal, the process exits after this many seconds.
constexpr unsigned kStuckOutput = 10;
/// Like kStuckOutput, but used when the launcher has been silent for too long. All ranks exit
/// within this time.
constexpr unsigned kStuckAfterSilence = 5;
/// ssh's exit code if it cannot connect or loses the connection.
constexpr int kNoConnection = 255;

volatile std::sig_atomic_t got_signal = 0;
volatile std::sig_atomic_t link_of_handler = -1;
volatile std::sig_atomic_t guard_of_handler = 0;
volatile std::time_t passed_on =
    0;  ///< time in seconds; until then, a signal may duplicate the one that the guard forwarded
/// Seconds between an agent's checks of its input; 0 means no checks.
volatile std::sig_atomic_t look_every = 0;
volatile std::sig_atomic_t heard = 0;    ///< whether input was read since the last check
volatile std::sig_atomic_t waiting = 0;  ///< number of unread bytes at the last check
volatile std::sig_atomic_t silent = 0;
volatile std::sig_atomic_t was_asked = 0;

/// True if a signal is a duplicate. A scheduler may signal the launcher and the guard at the same
/// time, and the guard forwards its signal to the launcher. The two signals count as one request.
bool is_repeated(const siginfo_t& info) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (info.si_code == SI_QUEUE && info.si_pid == guard_of_handler) {
    if (got_signal != 0) return true;
    passed_on = now.tv_sec + 1;
    return false;
  }
  const bool repeated = now.tv_sec <= passed_on;
  passed_on = 0;
  return repeated;
}

void on_signal(int signal, siginfo_t* info, void*) {
  if (is_repeated(*info)) return;
  const int error = errno;
  if (got_signal == 0) {
    got_signal = signal;
    ::alarm(kStuckOutput);
  }
  // The kernel also sends a terminal's signals to the ranks.
  Guard::forward(link_of_handler, signal, info->si_code > 0);
  errno = error;
}

/// Exits if the output is blocked, or checks whether the launcher is silent. This works even if the
/// process is blocked on its output and does not read its input.
void on_alarm(int) {
  if (got_signal != 0) ::_exit(128 + got_signal);
  if (silent != 0) ::_exit(128 + SIGTERM);
  int bytes = 0;
  ::ioctl(STDIN_FILENO, FIONREAD, &bytes);
  if (heard != 0 || bytes != waiting) {
    heard = 0;
    waiting = bytes;
    ::alarm(static_cast<unsigned>(look_every));
    return;
  }
  silent = 1;
  ::alarm(kStuckAfterSilence);
  Guard::forward(link_of_handler, SIGTERM, false);
}

/// Handles a runner's request to a rank agent.
void on_request(int signal, siginfo_t* info, void* context) {
  if (signal == SIGALRM && info->si_code > 0) return on_alarm(signal);
  was_asked = 1;
  on_signal(SIGTERM, info, context);
}

void on_user_signal(int signal) { Guard::forward(link_of_handler, signal, false); }

/// Handles this process's signals while a job runs.
class SignalGuard {
 public:
  SignalGuard(const Guard& guard, int silence, bool one_rank) {
    got_signal = 0;
    passed_on = 0;
    was_asked = 0;
    heard = 0;
    waiting = 0;
    silent = 0;
    look_every = silence;
    link_of_handler = guard.link();
    guard_of_handler = guard.process();
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      // Keep ignored signals ignored: nohup ignores SIGHUP, and shells ignore signals of background
      // processes.
      if (before_[i].sa_handler == SIG_IGN && kSignals[i] != SIGPIPE) continue;
      ::sigemptyset(&action.sa_mask);
      action.sa_flags = SA_RESTART;
      const bool user = kSignals[i] == SIGUSR1 || kSignals[i] == SIGUSR2;
      if (user && !one_rank) continue;
      if (kSignals[i] == SIGPIPE) {
        action.sa_handler = SIG_IGN;
      } else if (user) {
        action.sa_handler = on_user_signal;
      } else if (one_rank && (kSignals[i] == SIGALRM || kSignals[i] == SIGQUIT)) {
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = on_request;
      } else if (kSignals[i] == SIGALRM) {
        action.sa_handler = on_alarm;
      } else {
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = on_signal;
      }
      ::sigaction(kSignals[i], &action, nullptr);
    }
    ::alarm(static_cast<unsigned>(silence));
  }
  ~SignalGuard() {
    ::alarm(0);
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
    link_of_handler = -1;
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                       SIGALRM, SIGPIPE, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// DeepSpeed's PID file, for programs that start the launcher.
class PidFile {
 public:
  explicit PidFile(bool wanted) {
    if (!wanted) return;
    const auto number = std::to_string(::getpid());
    path_ = "/tmp/" + number + ".deepspeed";
    const int file =
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    const bool written = file >= 0 && ::write(file, number.data(), number.size()) ==
                                          static_cast<ssize_t>(number.size());
    const int error = errno;
    if (file >= 0) ::close(file);
    if (!written) {
      if (file >= 0) ::unlink(path_.c_str());
      throw Error(
          ErrorCode::io, "launch",
          {.what = "cannot write the --save_pid file " + path_ + ": " + std::strerror(error),
           .hint = error == EEXIST ? "remove the file; its launcher has exited" : ""});
    }
    // Log this instead of printing it, because standard output belongs to the ranks.
    log(LogLevel::info,
        "launch: launcher pid: " + number + ", stored in " + path_ + " while the job runs");
  }
  ~PidFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// Returns true if `descriptor` is at end-of-file; discards available data. A pidfd is readable
/// after its process has exited, and reading from it fails.
bool at_end(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  char buffer[256];
  if (::poll(&one, 1, 0) <= 0) return false;
  const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
  if (count > 0) heard = 1;
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

std::string name_of(const JobRank& rank) {
  return "rank " + std::to_string(rank.rank) + " on " + rank.host;
}

void tell_failure(const JobRank& rank, int status, const std::vector<std::string>& lines,
                  bool first) {
  std::string text = "launch: " + name_of(rank) + (first ? " failed first: " : " failed: ") +
                     describe_status(status);
  if (lines.empty()) {
    text += "; it wrote nothing to standard error";
  } else {
    text += "; its last lines:";
    for (const auto& line : lines) text += "\n  | " + line;
  }
  log(LogLevel::error, text);
}

}  // namespace

std::string describe_status(int status) {
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_job(const Job& job, const RunSettings& settings) {
  std::vector<int> numbers;
  for (const auto& rank : job.ranks) numbers.push_back(rank.rank);
  Outputs outputs(numbers, settings.output);
  const PidFile pid_file(settings.save_pid);
  for (std::size_t i = 0; i < outputs.log_files().size(); ++i)
    log(LogLevel::info, "launch: output of rank " + std::to_string(numbers[i]) + " goes to " +
                            outputs.log_files()[i]);

  Guard guard(job, outputs.descriptors(), pid_file.path());
  const SignalGuard signals(guard, settings.silence, settings.one_rank);
  guard.start();
  outputs.started();
  const auto say = [](const Report& report) {
    const auto line = format_report(report);
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  };
  if (settings.one_rank) say({numbers.front(), kStarted});

  std::optional<GuardMessage> failure;
  std::optional<Report> report;
  StartTimeout start_timeout(job.rank_hosts, std::chrono::seconds(job.start_limit),
                             StartTimeout::Clock::now());
  bool gave_up = false;
  bool finished = false, before_signal = false;
  int input = settings.ends_with;
  bool cut_off = false, reported = false;
  const bool runner = job.end_signal != 0;
  while (!finished) {
    const bool told =
        outputs.wait(guard.link(), input, start_timeout.milliseconds(StartTimeout::Clock::now()));
    const auto missing = start_timeout.missing(outputs.ranks_started(), StartTimeout::Clock::now());
    if (!missing.empty() && got_signal == 0 && !failure) {
      log(LogLevel::error, "launch: " + job.ranks.front().host + " has not started " + missing +
                               ", and no other rank has started for " +
                               std::to_string(job.start_limit) + " s (ANYACCEL_LAUNCH_SILENCE)");
      gave_up = before_signal = true;
      Guard::forward(guard.link(), SIGTERM, false);
    }
    if (input >= 0 && at_end(input)) {
      input = -1;
      cut_off = true;
      if (settings.asked_by_end) was_asked = 1;
      Guard::forward(guard.link(), SIGTERM, false);
    }
    // Terminate the job, because not all runners terminate the other ranks when one fails.
    if (runner && outputs.report() && !reported) {
      reported = true;
      before_signal = got_signal == 0;
      Guard::forward(guard.link(), SIGTERM, false);
    }
    if (!told) continue;
    const auto message = guard.receive();
    if (!message) break;
    switch (message->kind) {
      case GuardMessage::finished:
        finished = true;
        if (message->status > 0)
          log(LogLevel::error,
              "launch: cannot kill rank processes: " + std::to_string(message->status));
        break;
      case GuardMessage::left_behind:
        log(LogLevel::warning,
            "launch: all ranks exited; leftover processes that were terminated: " +
                std::to_string(message->status));
        break;
      default:
        failure = message;
        // A terminal's Ctrl-C reaches the ranks and the launcher. A rank that exits because of it
        // has not failed.
        before_signal = got_signal == 0;
        if (settings.agent && failure->kind == GuardMessage::failed) {
          report = {numbers.at(static_cast<std::size_t>(failure->rank)), failure->status};
          say(*report);
        }
    }
  }
  if (!finished) kill_descendants();
  outputs.finish();
  if (!finished) {
    log(LogLevel::error,
        "launch: the process that guards the ranks was killed, and the ranks with it");
    return 128 + SIGKILL;
  }
  if (was_asked != 0 && !before_signal) return 0;
  if (got_signal != 0 && !before_signal) {
    // Terminating one rank agent terminates all of them, so only the job's launcher logs this as a
    // warning.
    log(settings.one_rank ? LogLevel::debug : LogLevel::warning,
        std::string("launch: terminated by signal ") + std::to_string(got_signal) + " (" +
            ::strsignal(got_signal) + "); all rank processes have exited");
    return 128 + got_signal;
  }
  if (!failure && (cut_off || silent != 0)) return 128 + SIGTERM;
  if (!failure && settings.agent && outputs.failed()) {
    // If output cannot be written, ranks on other hosts continue, so this agent does not fail.
    say({-1, 1});
    return 0;
  }
  if (gave_up) return kNoConnection;
  if (runner && outputs.report()) {
    log(LogLevel::error, "launch: rank " + std::to_string(outputs.report()->rank) +
                             " failed first: " + describe_status(outputs.report()->status));
    return exit_code_of(outputs.report()->status);
  }
  if (!failure) return outputs.failed() ? 1 : 0;
  const auto& rank = job.ranks.at(static_cast<std::size_t>(failure->rank));
  if (failure->kind == GuardMessage::not_started)
    throw Error(ErrorCode::unavailable, "launch",
                {.what = name_of(rank) + " cannot be started: " + std::strerror(failure->status)});
  if (job.input == RankInput::held || runner) {
    const bool lost =
        !outputs.report() && !runner && exit_code_of(failure->status) == kNoConnection;
    log(LogLevel::error, "launch: " + rank.host +
                             " failed first: " + describe_status(failure->status) +
                             (lost ? ": it cannot be reached, or its connection was lost" : ""));
    return exit_code_of(outputs.report() ? outputs.report()->status : failure->status);
  }
  tell_failure(rank, failure->status, outputs.last_lines(static_cast<std::size_t>(failure->rank)),
               !settings.one_rank);
  // Repeat the report now that the rank no longer writes anything, because a runner may have
  // interleaved the first report with the output of other ranks.
  if (settings.one_rank && report) say(*report);
  return exit_code_of(failure->status);
}

}  // namespace anyaccel::launch
