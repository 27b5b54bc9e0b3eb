#include "backends/sim/fork.h"

#include <pthread.h>

#include <ctime>
#include <map>
#include <vector>

namespace anyaccel::backends::sim {

namespace {

struct Locks {
  std::mutex mutex;
  std::multimap<ForkOrder, std::mutex*> known;  // equal orders: in order of registration
  std::vector<std::mutex*> held;                // locked by the fork in progress
};

Locks& locks() {
  static auto* instance = new Locks;
  return *instance;
}

void before_fork() {
  auto& all = locks();
  all.mutex.lock();
  timespec deadline{};
  ::clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += 5;
  for (const auto& [order, mutex] : all.known)
    if (::pthread_mutex_timedlock(mutex->native_handle(), &deadline) == 0)
      all.held.push_back(mutex);
}

void after_fork() {
  auto& all = locks();
  for (auto mutex = all.held.rbegin(); mutex != all.held.rend(); ++mutex) (*mutex)->unlock();
  all.held.clear();
  all.mutex.unlock();
}

}  // namespace

void hold_at_fork(std::mutex& mutex, ForkOrder order) {
  static const int once = ::pthread_atfork(&before_fork, &after_fork, &after_fork);
  static_cast<void>(once);
  auto& all = locks();
  const std::lock_guard lock(all.mutex);
  all.known.emplace(order, &mutex);
}

}  // namespace anyaccel::backends::sim
