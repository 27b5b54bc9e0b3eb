#include "anyaccel/llm/stop_signal.h"

#include <time.h>

#include <csignal>
#include <cstdint>

namespace anyaccel::llm {

namespace {

std::atomic<bool> stopped{false};
/// When the first SIGINT and the first SIGTERM came, in nanoseconds; 0: not yet.
std::atomic<std::int64_t> interrupted_at{0}, terminated_at{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may touch nothing else");
/// What is sent to a process group (timeout, kill) reaches a rank by itself and once more from the launcher, which cannot know that.
constexpr std::int64_t kSameSignal = 1'000'000'000;
struct sigaction before_interrupt, before_terminate;

void on_signal(int signal) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  auto& first = signal == SIGINT ? interrupted_at : terminated_at;
  std::int64_t before = 0;
  if (first.compare_exchange_strong(before, now)) {
    stopped = true;
  } else if (now - before >= kSameSignal) {
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(signal, &usual, nullptr);
    ::raise(signal);
  }
}

/// A signal that was ignored when the program began stays so: nohup and shells that start jobs in the background rely on it.
void watch_unless_ignored(int signal, const struct sigaction& action, const struct sigaction& before) {
  if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal(Watch watch) : watch_(watch) {
  sigaction(SIGINT, nullptr, &before_interrupt);
  if (watch_ == Watch::all) sigaction(SIGTERM, nullptr, &before_terminate);
  again();
}

void StopSignal::again() {
  stopped = false;
  interrupted_at = terminated_at = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  watch_unless_ignored(SIGINT, action, before_interrupt);
  if (watch_ == Watch::all) watch_unless_ignored(SIGTERM, action, before_terminate);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  if (watch_ == Watch::all) sigaction(SIGTERM, &before_terminate, nullptr);
}

const std::atomic<bool>* StopSignal::flag() const noexcept { return &stopped; }

}  // namespace anyaccel::llm
