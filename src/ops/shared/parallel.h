// Parallel loops over the elements of several arrays, on torch's threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ATen/Parallel.h"
#include "kernels/common/openmp.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace anyaccel::ops {

/// Minimum number of elements per thread in an optimizer step. With fewer elements, waking a thread
/// costs more than it saves.
constexpr std::int64_t optimizer_grain = 16384;

/// Returns the number of CPUs that this thread may run on, or a large number if unknown.
inline std::int64_t allowed_processors() noexcept {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return 1 << 20;
}

/// Calls function(array, begin, end) for ranges that cover all elements of all arrays.
/// `sizes[array]` is the number of elements of an array. The function must not throw.
///
/// The number of threads is limited by at::get_num_threads() and by the allowed CPUs, and each
/// thread gets at least `grain` elements. For the same sizes, each thread gets the same elements in
/// every call, so the data in its cache remains useful. Ranges start at multiples of `block`; the
/// default is a multiple of cache lines and vectors for all types.
template <typename Function>
void parallel_elements(const std::int64_t* sizes, std::size_t arrays, std::int64_t grain,
                       const Function& function, std::int64_t block = 256) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < arrays; ++i) total += sizes[i];
  std::int64_t threads =
      total < 2 * grain ? 1 : std::min<std::int64_t>(at::get_num_threads(), total / grain);
  if (threads > 1)
    threads =
        at::in_parallel_region() || !GOMP_parallel ? 1 : std::min(threads, allowed_processors());
  if (threads == 1) {
    for (std::size_t i = 0; i < arrays; ++i)
      if (sizes[i]) function(i, std::int64_t{0}, sizes[i]);
    return;
  }
  std::vector<std::int64_t> first(arrays + 1, 0);
  for (std::size_t i = 0; i < arrays; ++i) first[i + 1] = first[i] + (sizes[i] + block - 1) / block;
  struct Region {
    const Function& function;
    const std::int64_t* sizes;
    const std::int64_t block;
    const std::vector<std::int64_t>& first;

    static void run(void* data) {
      const Region& region = *static_cast<const Region*>(data);
      const std::int64_t index = omp_get_thread_num();
      const std::int64_t count = omp_get_num_threads();  // may be fewer than requested
      const std::int64_t all = region.first.back();
      std::int64_t begin = all * index / count;
      const std::int64_t end = all * (index + 1) / count;
      auto i = static_cast<std::size_t>(
          std::upper_bound(region.first.begin(), region.first.end(), begin) - region.first.begin() -
          1);
      for (; begin < end; ++i) {
        const std::int64_t stop = std::min(end, region.first[i + 1]);
        const std::int64_t offset = region.first[i];
        if (begin < stop)
          region.function(i, (begin - offset) * region.block,
                          std::min((stop - offset) * region.block, region.sizes[i]));
        begin = stop;
      }
    }
  };
  Region region{function, sizes, block, first};
  GOMP_parallel(&Region::run, &region, static_cast<unsigned>(threads), 0);
}

}  // namespace anyaccel::ops
