#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/fork_safe.h"
#include "base/untrusted_text.h"

namespace anyaccel {

namespace {

constexpr std::array<std::string_view, 4> kNames{"error", "warning", "info", "debug"};

LogLevel initial_level() noexcept {
  const auto text = env("ANYACCEL_LOG_LEVEL");
  for (std::size_t i = 0; text && i < kNames.size(); ++i)
    if (*text == kNames[i]) return static_cast<LogLevel>(i);
  return LogLevel::warning;
}

std::atomic<LogLevel>& level_slot() noexcept {
  static std::atomic<LogLevel> slot{initial_level()};
  return slot;
}

}  // namespace

LogLevel log_level() noexcept { return level_slot().load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) noexcept {
  level_slot().store(level, std::memory_order_relaxed);
}

LogLevel parse_log_level(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  throw Error(ErrorCode::invalid_argument, "log_level",
              {.what = "unknown log level",
               .got = quoted_text(text),
               .want = "error, warning, info or debug"});
}

void log(LogLevel level, std::string_view message) {
  if (level > log_level()) return;
  std::string line = "anyaccel: ";
  line.append(kNames[static_cast<std::size_t>(level)])
      .append(": ")
      .append(printable_text(message))
      .append("\n");
  // Use one write() per line, so that lines from different processes are not interleaved.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void log_once(LogLevel level, std::string_view key, std::string_view message) {
  static auto* mutex = new ForkSafeMutex;
  static auto* seen = new std::set<std::string, std::less<>>;
  {
    const std::lock_guard lock(*mutex);
    if (!seen->emplace(key).second) return;
  }
  log(level, message);
}

}  // namespace anyaccel
