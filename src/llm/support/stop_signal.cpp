#include "anyaccel/llm/stop_signal.h"

#include <csignal>

namespace anyaccel::llm {

namespace {

std::atomic<bool> stopped{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch nothing else");
struct sigaction before_interrupt, before_terminate;

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
  struct sigaction action = {};
  action.sa_handler = [](int) { stopped = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
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
