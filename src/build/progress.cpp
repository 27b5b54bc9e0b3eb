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

namespace {

bool on_terminal() {
  static const bool answer = ::isatty(STDERR_FILENO) == 1;
  return answer;
}

std::string in_seconds(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

std::chrono::milliseconds Progress::passed() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin_);
}

void Progress::show(const std::string& text) {
  if (!on_terminal() || passed() < std::chrono::seconds(1)) return;
  const auto line = "anyaccel: " + name_ + ": " + text + ", " + in_seconds(passed());
  if (line == shown_) return;
  shown_ = line;
  std::fprintf(stderr, "\r\033[K%.100s", line.c_str());
}

void Progress::work_on(const std::string& text) {
  show(text);
  if (!on_terminal() && passed() >= report_after_ + told_ * std::chrono::minutes(1)) {
    ++told_;
    log(LogLevel::warning, name_ + ": " + text + ", for " + in_seconds(passed()) + " so far");
  }
  const auto limit = env_int("ANYACCEL_OP_BUILD_TIMEOUT", 0, 1'000'000).value_or(0);
  if (limit > 0 && passed() >= std::chrono::seconds(limit))
    throw Error(ErrorCode::timeout, "OpBuilder::load",
                {.what = "building " + name_ + " took longer than ANYACCEL_OP_BUILD_TIMEOUT=" +
                         std::to_string(limit) + " seconds: " + text,
                 .hint = "raise the limit, or check why the build hangs"});
}

void Progress::wait_for(const FileLock::Holder& holder) {
  auto who = holder.process > 0 ? "process " + std::to_string(holder.process)
                                : std::string("another process");
  if (!holder.host.empty()) who += " on " + holder.host;
  show("waiting for " + who + ", which is building it");
  if (passed() >= std::chrono::seconds(2) + told_ * std::chrono::minutes(1)) {
    ++told_;
    log(LogLevel::warning,
        name_ + ": waiting for " + who + ", which is building it, for " + in_seconds(passed()));
  }
  const auto limit = env_int("ANYACCEL_OP_WAIT", 0, 1'000'000);
  if (limit && passed() >= std::chrono::seconds(*limit))
    throw Error(ErrorCode::timeout, "OpBuilder::load",
                {.what = name_ + " is being built by " + who +
                         ", which has taken longer than ANYACCEL_OP_WAIT=" +
                         std::to_string(*limit) + " seconds",
                 .hint = "check that process, or raise the limit"});
}

int job_count(int steps, double cores, long long memory) {
  constexpr long long kEach = 3LL << 29;
  const auto fit = std::max(1LL, memory / kEach);
  return static_cast<int>(std::clamp<long long>(
      std::min<long long>(fit, std::llround(std::ceil(cores))), 1, std::max(1, steps)));
}

int job_count(int steps) {
  if (const auto named = env_int("ANYACCEL_OP_JOBS", 1, 1024))
    return static_cast<int>(std::min<long>(*named, std::max(1, steps)));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const double cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                           ? CPU_COUNT(&allowed)
                           : static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return job_count(steps, std::min(cores, topology::control_group_processors()),
                   topology::usable_memory().available);
}

}  // namespace anyaccel::build
