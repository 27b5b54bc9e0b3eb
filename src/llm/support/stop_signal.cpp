#include "anyaccel/llm/stop_signal.h"

#include <time.h>

#include <csignal>
#include <cstdint>

namespace anyaccel::llm {

namespace {

std::atomic<bool> stopped{false};
/// Times of the first SIGINT and the first SIGTERM in nanoseconds; 0: no signal yet.
std::atomic<std::int64_t> interrupted_at{0}, terminated_at{0};
static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may access only lock-free atomics");
/// A signal to a process group (from timeout or kill) reaches a rank twice: directly, and through
/// the launcher, which cannot detect that the rank already has it.
constexpr std::int64_t kSameSignal = 1'000'000'000;
struct sigaction before_interrupt, before_terminate;

/// Timer that sends the first signal again when the time limit expires. Not created without a
/// limit.
struct Deadline {
  timer_t timer{};
  bool made = false;
};
Deadline interrupt_deadline, terminate_deadline;
itimerspec patience_left{};

void make(Deadline& deadline, int signal) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = signal;
  deadline.made = ::timer_create(CLOCK_MONOTONIC, &event, &deadline.timer) == 0;
}

void end(Deadline& deadline) {
  if (deadline.made) ::timer_delete(deadline.timer);
  deadline.made = false;
}

/// Async-signal-safe.
void set(const Deadline& deadline, const itimerspec& time) {
  if (deadline.made) ::timer_settime(deadline.timer, 0, &time, nullptr);
}

void on_signal(int signal, siginfo_t* info, void* /*context*/) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  auto& first = signal == SIGINT ? interrupted_at : terminated_at;
  std::int64_t before = 0;
  const bool patience_is_over = info->si_code == SI_TIMER;
  if (!patience_is_over && first.compare_exchange_strong(before, now)) {
    stopped = true;
    set(signal == SIGINT ? interrupt_deadline : terminate_deadline, patience_left);
  } else if (patience_is_over || now - before >= kSameSignal) {
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(signal, &usual, nullptr);
    ::raise(signal);
  }
}

/// A signal that was ignored at program start stays ignored. nohup relies on this, and so do shells
/// that start background jobs.
void watch_unless_ignored(int signal, const struct sigaction& action,
                          const struct sigaction& before) {
  if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal(Watch watch, Patience patience) : watch_(watch) {
  patience_left.it_value = {.tv_sec = patience.count() / 1000,
                            .tv_nsec = patience.count() % 1000 * 1'000'000};
  if (patience > kNoLimit) {
    make(interrupt_deadline, SIGINT);
    if (watch_ == Watch::all) make(terminate_deadline, SIGTERM);
  }
  sigaction(SIGINT, nullptr, &before_interrupt);
  if (watch_ == Watch::all) sigaction(SIGTERM, nullptr, &before_terminate);
  again();
}

void StopSignal::again() {
  for (const Deadline* deadline : {&interrupt_deadline, &terminate_deadline}) set(*deadline, {});
  stopped = false;
  interrupted_at = terminated_at = 0;
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  watch_unless_ignored(SIGINT, action, before_interrupt);
  if (watch_ == Watch::all) watch_unless_ignored(SIGTERM, action, before_terminate);
}

StopSignal::~StopSignal() {
  // Delete the timers before restoring the previous handlers, which must not receive the timers'
  // signals.
  for (Deadline* deadline : {&interrupt_deadline, &terminate_deadline}) end(*deadline);
  sigaction(SIGINT, &before_interrupt, nullptr);
  if (watch_ == Watch::all) sigaction(SIGTERM, &before_terminate, nullptr);
}

const std::atomic<bool>* StopSignal::flag() const noexcept { return &stopped; }

}  // namespace anyaccel::llm
