// The same loop over every library that reduces at pointers. Needs nothing else, so that it is compiled with any of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace all_reduce {

struct Size {
  const char* name;
  std::size_t bytes;
};
inline constexpr Size kSizes[] = {{"1K", 1 << 10},  {"4K", 1 << 12},   {"16K", 1 << 14},
                                  {"64K", 1 << 16}, {"256K", 1 << 18}, {"1M", 1 << 20},
                                  {"4M", 1 << 22},  {"16M", 1 << 24},  {"64M", 1 << 26}};

/// Calls in a batch, the same on every rank.
inline int calls_of(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{24} << 20) / bytes, 2, 1000));
}

/// Microseconds of reduce(data, count, is_bf16) in place: medians of batches. Prints them on rank 0.
template <typename Reduce, typename Barrier>
void measure(int rank, Reduce reduce, Barrier barrier) {
  using Clock = std::chrono::steady_clock;
  std::string out;
  for (const bool bf16 : {false, true})
    for (const auto& size : kSizes) {
      auto* const data = std::aligned_alloc(4096, size.bytes);
      std::memset(data, 0, size.bytes);
      const auto count = size.bytes / (bf16 ? 2 : 4);
      const int calls = calls_of(size.bytes);
      std::vector<double> times;
      for (int batch = -1; batch < 9; ++batch) {
        barrier();
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) reduce(data, count, bf16);
        if (batch >= 0)
          times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls);
      }
      std::free(data);
      std::nth_element(times.begin(), times.begin() + 4, times.end());
      out += (out.empty() ? "{\"" : ", \"") + std::string(bf16 ? "bf16_" : "fp32_") + size.name +
             "_us\": " + std::to_string(times[4]);
    }
  if (rank == 0) std::printf("%s}\n", out.c_str());
}

}  // namespace all_reduce
