#include "backends/sim/trace.h"

#include <mutex>
#include <utility>

namespace anyaccel::backends::sim::trace {

std::atomic<bool> active{false};

namespace {

struct Record {
  std::mutex mutex;
  std::vector<TracedKernel> kernels;
};

Record& record() {
  static auto* instance = new Record;  // workers may still run while static objects are destroyed
  return *instance;
}

std::vector<std::uint64_t>& correlations() {
  static thread_local std::vector<std::uint64_t> ids;
  return ids;
}

}  // namespace

void start() {
  auto& to = record();
  const std::lock_guard lock(to.mutex);
  to.kernels.clear();
  active.store(true);
}

std::vector<TracedKernel> stop() {
  auto& from = record();
  const std::lock_guard lock(from.mutex);
  active.store(false);
  return std::exchange(from.kernels, {});
}

void add(const TracedKernel& kernel) {
  auto& to = record();
  const std::lock_guard lock(to.mutex);
  if (active.load()) to.kernels.push_back(kernel);
}

void push_correlation(std::uint64_t id) { correlations().push_back(id); }

void pop_correlation() {
  auto& ids = correlations();
  if (!ids.empty()) ids.pop_back();
}

std::uint64_t correlation() noexcept {
  const auto& ids = correlations();
  return ids.empty() ? 0 : ids.back();
}

}  // namespace anyaccel::backends::sim::trace
