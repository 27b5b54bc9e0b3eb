#include "build/progress.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/log.h"
#include "topology/memory_limit.h"
#include "topology/processor_limit.h"

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

void Progress::wait_for(const FileLock::Holder& holder) {
  auto who = holder.process > 0 ? "process " + std::to_string(holder.process) : std::string("another process");
  if (!holder.host.empty()) who += " on " + holder.host;
  show("waiting for " + who + ", which builds it");
  const auto passed =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin_).count();
  if (passed >= 2 + told_ * 60) {
    ++told_;
    log(LogLevel::warning, name_ + ": waiting for " + who + ", which builds it, for " + std::to_string(passed) + " s");
  }
  const auto limit = env_int("ANYACCEL_OP_WAIT", 0, 1'000'000);
  if (limit && passed >= *limit)
    throw Error(ErrorCode::timeout, "OpBuilder::load",
                {.what = name_ + " is being built by " + who +
                         ", longer than ANYACCEL_OP_WAIT=" + std::to_string(*limit) + " seconds",
                 .hint = "see what that process does, or raise the limit"});
}

int job_count(int steps, double cores, long long memory) {
  constexpr long long kEach = 3LL << 29;
  const auto fit = std::max(1LL, memory / kEach);
  return static_cast<int>(
      std::clamp<long long>(std::min<long long>(fit, std::llround(std::ceil(cores))), 1, std::max(1, steps)));
}

int job_count(int steps) {
  if (const auto named = env_int("ANYACCEL_OP_JOBS", 1, 1024))
    return static_cast<int>(std::min<long>(*named, std::max(1, steps)));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const double cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                           ? CPU_COUNT(&allowed)
                           : static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return job_count(steps, std::min(cores, topology::control_group_processors()), topology::usable_memory().available);
}

}  // namespace anyaccel::build
