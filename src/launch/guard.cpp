#include "launch/guard.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "anyaccel/error.h"
#include "launch/process_tree.h"
#include "launch/rank_process.h"

namespace anyaccel::launch {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Grace period between the signal that asks processes to exit and SIGKILL. After a user's signal,
/// it is long, so that programs can save their state. After a failure, it is short, because the
/// remaining ranks only wait for the failed one.
constexpr milliseconds kAfterSignal{3000};
constexpr milliseconds kAfterFailure{500};
/// Processes that survive SIGKILL for this long are assumed to be blocked in the kernel or to
/// belong to another user.
constexpr milliseconds kAfterKill{1500};
constexpr milliseconds kLook{10};
/// Number of heartbeats within Job::silence seconds.
constexpr int kSigns = 6;

struct Request {
  int signal;  ///< signal that the launcher received; 0 is the request to start the ranks
  bool from_terminal;
};

/// The guard process.
class Watch {
 public:
  Watch(const Job& job, int link, pid_t launcher, pid_t launcher_group)
      : job_(job), link_(link), group_(launcher_group), launcher_(launcher) {}

  void start(const std::vector<RankDescriptors>& descriptors, const SignalSettings& signals);
  void run();
  bool launcher_is_gone() const noexcept { return gone_; }

 private:
  struct Rank {
    pid_t process = 0;  ///< 0 if the rank has exited or was not started
    int descriptor = -1;
    int held = -1;  ///< write end of the rank's standard input, for RankInput::held
  };
  pid_t start_rank(std::size_t index, RankDescriptors descriptors, const SignalSettings& signals);
  void tell(GuardMessage message) const {
    // The socket's buffer has enough space for these few messages, even if the launcher does not
    // read them.
    if (!gone_) ::send(link_, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void end(int signal, milliseconds grace, pid_t except = 0);
  int milliseconds_to_wait() const;
  void give_sign();
  void obey();
  void take_signal();
  void rank_ended(std::size_t index);
  void reap();
  bool nothing_left();

  const Job& job_;
  int link_;
  pid_t group_;
  pid_t launcher_;
  int epoll_ = -1;
  int signals_ =
      -1;  ///< signalfd; readable after a child has exited or this process has received a signal
  std::vector<Rank> ranks_;
  std::size_t running_ = 0;
  bool gone_ = false;
  bool ending_ = false;
  Clock::time_point kill_at_{}, sign_at_{};
};

constexpr std::uint64_t kLink = ~std::uint64_t{0};
constexpr std::uint64_t kSignal = kLink - 1;
/// Signals that the guard forwards to the launcher.
constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

void add(int epoll, int descriptor, std::uint64_t what, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = what}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

void Watch::start(const std::vector<RankDescriptors>& descriptors, const SignalSettings& signals) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  sigset_t taken;
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  for (const int signal : kEnds) ::sigaddset(&taken, signal);
  signals_ = ::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  add(epoll_, signals_, kSignal, EPOLLIN);
  add(epoll_, link_, kLink, EPOLLIN);
  ranks_.resize(job_.ranks.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const pid_t process = start_rank(i, descriptors[i], signals);
    if (process < 0) {
      tell({GuardMessage::not_started, static_cast<int>(i), errno});
      end(SIGTERM, kAfterFailure);
      return;
    }
    ranks_[i].process = process;
    ranks_[i].descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    ++running_;
    // Without pidfds (Linux before 5.3), ranks that exit at almost the same time may be reported in
    // the wrong order.
    if (ranks_[i].descriptor >= 0) add(epoll_, ranks_[i].descriptor, i, EPOLLIN | EPOLLONESHOT);
  }
}

/// Starts a rank. Returns -1 and sets errno if this fails.
pid_t Watch::start_rank(std::size_t index, RankDescriptors descriptors,
                        const SignalSettings& signals) {
  int input[2] = {-1, -1};
  if (job_.input == RankInput::held && ::pipe2(input, O_CLOEXEC) != 0) return -1;
  if (job_.input == RankInput::nothing) input[0] = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t self = ::getpid();
  const pid_t process = ::fork();
  // The terminal's Ctrl-C must not reach clients that connect to other hosts, because the guard
  // asks them to exit by closing their standard input or with `end_signal`. If the guard dies, a
  // runner gets SIGTERM instead of SIGKILL, so that it can terminate its processes on other hosts.
  if (process == 0)
    become_rank(job_.ranks[index], job_.unset, descriptors, input[0], signals, self,
                job_.own_group ? 0 : group_, job_.end_signal != 0 ? SIGTERM : SIGKILL);
  const int error = errno;
  if (input[0] >= 0) ::close(input[0]);
  if (input[1] >= 0) ::fcntl(input[1], F_SETFL, O_NONBLOCK);
  ranks_[index].held = input[1];
  errno = error;
  return process;
}

/// Asks all processes to exit. After `grace`, run() kills them.
void Watch::end(int signal, milliseconds grace, pid_t except) {
  ending_ = true;
  kill_at_ = Clock::now() + grace;
  if (job_.input == RankInput::held && signal != SIGKILL) {
    for (auto& rank : ranks_) {
      if (rank.held >= 0) ::close(rank.held);
      rank.held = -1;
    }
    // An agent takes up to kAfterSignal to terminate its ranks, so allow more time than that.
    kill_at_ = Clock::now() + kAfterSignal + kAfterFailure;
    return;
  }
  if (job_.end_signal != 0 && running_ > 0 && signal != SIGKILL) {
    ::kill(ranks_.front().process, job_.end_signal);
    kill_at_ = Clock::now() + kAfterSignal + kAfterFailure;
    return;
  }
  send_signal(descendants(::getpid()), signal, except);
}

int Watch::milliseconds_to_wait() const {
  if (ending_) return static_cast<int>(kLook.count());
  if (job_.silence == 0) return -1;
  const auto left = std::chrono::duration_cast<milliseconds>(sign_at_ - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0) + 1);
}

/// Sends heartbeats to agents, which otherwise could not detect a broken network connection.
void Watch::give_sign() {
  if (job_.silence == 0 || ending_ || Clock::now() < sign_at_) return;
  sign_at_ = Clock::now() + milliseconds(job_.silence * 1000LL / kSigns);
  for (const auto& rank : ranks_)
    if (rank.held >= 0) [[maybe_unused]]
      const auto written = ::write(rank.held, ".", 1);
}

void Watch::obey() {
  Request request{};
  const ssize_t count = ::recv(link_, &request, sizeof request, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count != sizeof request) {
    gone_ = true;
    if (!ending_ && !job_.last_words.empty()) [[maybe_unused]]
      const auto written = ::write(STDERR_FILENO, job_.last_words.data(), job_.last_words.size());
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, link_, nullptr);
    if (job_.end_signal == 0)
      end(SIGKILL, milliseconds(0));
    else if (!ending_)
      end(SIGTERM, kAfterSignal);
  } else if (request.signal == 0) {
    // Ignore a start request that arrives after a signal.
  } else if (request.signal == SIGUSR1 || request.signal == SIGUSR2) {
    for (const auto& rank : ranks_)
      if (rank.process > 0) ::kill(rank.process, request.signal);
  } else if (ending_) {
    kill_at_ = Clock::now();
  } else {
    end(request.signal, kAfterSignal, request.from_terminal ? group_ : 0);
  }
}

/// Forwards a signal to the launcher, which decides how to react. The launcher recognizes the guard
/// as the sender. If a scheduler signals every process of a job, the launcher therefore does not
/// count its own signal and the guard's as two requests.
void Watch::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD) return;
  if (::getppid() == launcher_) ::sigqueue(launcher_, static_cast<int>(info.ssi_signo), {});
}

void Watch::rank_ended(std::size_t index) {
  auto& rank = ranks_[index];
  int status = 0;
  if (rank.process == 0 || ::waitpid(rank.process, &status, WNOHANG) != rank.process) return;
  rank.process = 0;
  if (rank.descriptor >= 0) ::close(rank.descriptor);
  --running_;
  if (status == 0 || ending_) return;
  tell({GuardMessage::failed, static_cast<int>(index), status});
  end(SIGTERM, kAfterFailure);
}

/// Reaps processes that are not ranks. run() reaps ranks with a pidfd, in the order in which they
/// exited.
void Watch::reap() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                   [&](const Rank& one) { return one.process == info.si_pid; });
    if (rank == ranks_.end())
      ::waitpid(info.si_pid, nullptr, 0);
    else if (rank->descriptor >= 0)
      return;
    else
      rank_ended(static_cast<std::size_t>(rank - ranks_.begin()));
  }
}

/// True if this process has no descendants. It is a subreaper, so orphaned descendants become its
/// children: without children, it has no descendants either.
bool Watch::nothing_left() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

void Watch::run() {
  std::vector<epoll_event> events(ranks_.size() + 2);
  int stuck = 0;
  for (;;) {
    if (running_ == 0 && nothing_left()) break;
    if (running_ == 0 && !ending_) {
      const auto left = descendants(::getpid());
      tell({GuardMessage::left_behind, -1, static_cast<int>(left.size())});
      end(SIGTERM, kAfterFailure);
    }
    if (ending_ && Clock::now() >= kill_at_) {
      const auto left = descendants(::getpid());
      send_signal(left, SIGKILL);
      if (Clock::now() >= kill_at_ + kAfterKill) {
        stuck = static_cast<int>(left.size());
        break;
      }
    }
    give_sign();
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                   milliseconds_to_wait());
    // epoll returns descriptors in the order in which they became ready.
    for (int i = 0; i < count; ++i) {
      const auto what = events[static_cast<std::size_t>(i)].data.u64;
      if (what < ranks_.size()) rank_ended(what);
      if (what == kLink) obey();
      if (what == kSignal) take_signal();
    }
    reap();
  }
  tell({GuardMessage::finished, -1, stuck});
}

/// Waits for the first request. Consumes a start request, but leaves a signal for obey(). Returns
/// false if the launcher is gone.
bool wait_for_start(int link) {
  Request request{};
  ssize_t count;
  while ((count = ::recv(link, &request, sizeof request, MSG_PEEK)) < 0 && errno == EINTR) {
  }
  if (count == sizeof request && request.signal == 0) ::recv(link, &request, sizeof request, 0);
  return count == sizeof request;
}

[[noreturn]] void guard_main(const Job& job, const std::vector<RankDescriptors>& descriptors,
                             const std::string& remove, const SignalSettings& signals, int link,
                             pid_t launcher, pid_t launcher_group) {
  // Leave the launcher's process group, so that signals to the group do not kill the guard. All
  // signals have been blocked since before the fork.
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "anyaccel-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!wait_for_start(link)) {
    if (!remove.empty()) ::unlink(remove.c_str());
    ::_exit(0);
  }
  Watch watch(job, link, launcher, launcher_group);
  watch.start(descriptors, signals);
  for (const auto& one : descriptors) {
    // Close these copies. The launcher reads until end-of-file, which it gets only after all write
    // ends are closed.
    if (one.output >= 0) ::close(one.output);
    if (one.error >= 0 && one.error != one.output) ::close(one.error);
  }
  watch.run();
  if (watch.launcher_is_gone() && !remove.empty()) ::unlink(remove.c_str());
  ::_exit(0);
}

}  // namespace

Guard::Guard(const Job& job, const std::vector<RankDescriptors>& descriptors,
             const std::string& remove) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorCode::unavailable, "launch",
                {.what = std::string("cannot create a socket: ") + std::strerror(errno)});
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto signals = SignalSettings::current();
  const pid_t self = ::getpid(), group = ::getpgrp();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[0]);
    guard_main(job, descriptors, remove, signals, ends[1], self, group);
  }
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
  ::close(ends[1]);
  link_ = ends[0];
  if (process_ > 0) return;
  ::close(link_);
  throw Error(ErrorCode::unavailable, "launch",
              {.what = std::string("cannot start a process: ") + std::strerror(error)});
}

Guard::~Guard() {
  ::close(link_);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::start() { forward(link_, 0, false); }

std::optional<GuardMessage> Guard::receive() {
  for (;;) {
    GuardMessage message{};
    const ssize_t count = ::recv(link_, &message, sizeof message, 0);
    if (count == sizeof message) return message;
    // If the guard exited without reading a request, recv() fails once with ECONNRESET before it
    // returns the guard's messages.
    if (count < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    return std::nullopt;
  }
}

void Guard::forward(int link, int signal, bool from_terminal) noexcept {
  const Request request{signal, from_terminal};
  ::send(link, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void kill_descendants() {
  const auto until = Clock::now() + kAfterKill;
  while (Clock::now() < until) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const auto left = descendants(::getpid());
    if (left.empty()) return;
    send_signal(left, SIGKILL);
    ::usleep(5000);
  }
}

}  // namespace anyaccel::launch
