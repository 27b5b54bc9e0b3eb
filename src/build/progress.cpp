#include "build/progress.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/env.h"
#include "base/log.h"
#include "topology/memory_limit.h"

namespace anyaccel::build {

Progress::~Progress() {
  if (!shown_.empty()) std::fputs("\r\033[K", stderr);
}

void Progress::show(const std::string& text) {
  using std::chrono::seconds;
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto passed = std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - begin_).count();
  if (!terminal || passed < 1) return;
  const auto line = "anyaccel: " + name_ + ": " + text + ", " + std::to_string(passed) + " s";
  if (line == shown_) return;
  shown_ = line;
  std::fprintf(stderr, "\r\033[K%.100s", line.c_str());
}

void Progress::wait_for(long holder) {
  const auto who = holder > 0 ? "process " + std::to_string(holder) : std::string("another process");
  show("waiting for " + who + ", which builds it");
  if (!told_ && shown_.empty()) log(LogLevel::info, name_ + ": waiting for " + who + ", which builds it");
  told_ = true;
}

int job_count(int steps, int cores, long long memory) {
  constexpr long long kEach = 3LL << 29;
  const auto fit = std::max(1LL, memory / kEach);
  return static_cast<int>(std::clamp<long long>(std::min<long long>(fit, cores), 1, std::max(1, steps)));
}

int job_count(int steps) {
  if (const auto named = env_int("ANYACCEL_OP_JOBS", 1, 1024))
    return static_cast<int>(std::min<long>(*named, std::max(1, steps)));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                        ? CPU_COUNT(&allowed)
                        : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return job_count(steps, cores, topology::usable_memory().available);
}

}  // namespace anyaccel::build
