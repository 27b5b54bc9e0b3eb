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
  std::map<std::string, Count> host, device;
  std::vector<std::pair<std::string, cl_event>> running;
};

Counters& counters() {
  static auto* instance = new Counters;
  return *instance;
}

/// Adds the times of kernels that were launched. The caller holds the lock.
void collect() {
  for (const auto& [name, event] : counters().running) {
    cl_ulong begin = 0, end = 0;
    if (clWaitForEvents(1, &event) == CL_SUCCESS &&
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr) ==
            CL_SUCCESS &&
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) ==
            CL_SUCCESS)
      counters().device[name].seconds += static_cast<double>(end - begin) / 1e9;
    clReleaseEvent(event);
  }
  counters().running.clear();
}

Count print(const char* place, const std::map<std::string, Count>& counts) {
  std::vector<std::pair<std::string, Count>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  Count all;
  for (const auto& [name, count] : rows) {
    std::fprintf(stderr, "ocl: %-6s %8ld calls %10.1f ms  %s\n", place, count.calls,
                 count.seconds * 1e3, name.c_str());
    all.calls += count.calls;
    all.seconds += count.seconds;
  }
  return all;
}

void print_all() {
  const std::lock_guard lock(counters().mutex);
  collect();
  const auto device = print("device", counters().device), host = print("host", counters().host);
  std::fprintf(stderr,
               "ocl: %ld kernels took %.1f ms on the device; %ld ops took %.1f ms on the host\n",
               device.calls, device.seconds * 1e3, host.calls, host.seconds * 1e3);
}

}  // namespace

bool counting() noexcept {
  static const bool on = [] {
    const char* value = std::getenv("OCL_COUNTS");
    if (value == nullptr || *value == '\0' || *value == '0') return false;
    std::atexit(print_all);
    return true;
  }();
  return on;
}

void count_host(const std::string& op, double seconds) {
  const std::lock_guard lock(counters().mutex);
  auto& count = counters().host[op];
  ++count.calls;
  count.seconds += seconds;
}

void count_kernel(const std::string& name, cl_event event) {
  const std::lock_guard lock(counters().mutex);
  ++counters().device[name].calls;
  clRetainEvent(event);
  counters().running.emplace_back(name, event);
  if (counters().running.size() >= 4096) collect();
}

}  // namespace ocl_backend
