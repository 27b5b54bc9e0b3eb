#include "device/counters.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace ocl_backend {
namespace {

struct Count {
  long calls = 0;
  double seconds = 0;
};

struct Counters {
  std::mutex mutex;
  std::map<std::pair<bool, std::string>, Count> counts;
};

Counters& counters() {
  static auto* instance = new Counters;
  return *instance;
}

void print() {
  const std::lock_guard lock(counters().mutex);
  std::vector<std::pair<std::pair<bool, std::string>, Count>> rows(counters().counts.begin(),
                                                                   counters().counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.calls > b.second.calls;
  });
  long calls[2] = {0, 0};
  for (const auto& [key, count] : rows) calls[key.first ? 1 : 0] += count.calls;
  const auto all = std::max(1L, calls[0] + calls[1]);
  std::fprintf(stderr, "ocl: %ld calls on the device, %ld on the host (%.1f%%)\n", calls[0],
               calls[1], 100.0 * static_cast<double>(calls[1]) / static_cast<double>(all));
  for (const auto& [key, count] : rows)
    std::fprintf(stderr, "ocl: %-6s %8ld calls %9.1f ms  %s\n", key.first ? "host" : "device",
                 count.calls, count.seconds * 1e3, key.second.c_str());
}

}  // namespace

bool counting() noexcept {
  static const bool on = [] {
    const char* value = std::getenv("OCL_COUNTS");
    if (value == nullptr || *value == '\0' || *value == '0') return false;
    std::atexit(print);
    return true;
  }();
  return on;
}

void count_call(const std::string& op, bool on_host, double seconds) {
  const std::lock_guard lock(counters().mutex);
  auto& count = counters().counts[{on_host, op}];
  ++count.calls;
  count.seconds += seconds;
}

}  // namespace ocl_backend
