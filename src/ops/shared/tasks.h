// Dynamic scheduling of tasks on torch's threads. Tasks may take different amounts of time.
#pragma once

#include <atomic>

#include "ops/shared/parallel.h"

namespace anyaccel::ops {

/// Returns the maximum number of threads for parallel_tasks(): the number of torch's threads,
/// limited by the allowed CPUs, or 1 inside a parallel region. The ops use parallel_tasks() instead
/// of at::parallel_for, whose header uses threads only if it is compiled with an OpenMP flag.
/// Without that flag, at::parallel_for runs sequentially.
inline std::int64_t task_threads() noexcept {
  if (at::in_parallel_region() || !GOMP_parallel) return 1;
  return std::max<std::int64_t>(
      1, std::min<std::int64_t>(at::get_num_threads(), allowed_processors()));
}

/// Calls function(task, thread) for each task in [0, count) on at most `threads` threads, which are
/// numbered from 0. A thread that has finished a task takes the next one. The function must not
/// throw.
template <typename Function>
void parallel_tasks(std::int64_t count, std::int64_t threads, const Function& function) {
  threads = std::min(threads, count);
  if (threads <= 1) {
    for (std::int64_t i = 0; i < count; ++i) function(i, std::int64_t{0});
    return;
  }
  struct Region {
    const Function& function;
    std::int64_t count;
    std::atomic<std::int64_t> next{0};

    static void run(void* data) {
      Region& region = *static_cast<Region*>(data);
      for (std::int64_t i;
           (i = region.next.fetch_add(1, std::memory_order_relaxed)) < region.count;)
        region.function(i, std::int64_t{omp_get_thread_num()});
    }
  };
  Region region{function, count};
  GOMP_parallel(&Region::run, &region, static_cast<unsigned>(threads), 0);
}

}  // namespace anyaccel::ops
