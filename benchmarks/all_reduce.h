// Timing loop shared by the programs of all libraries whose all-reduce takes raw pointers. Depends
// only on the standard library.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// Writes `number`, which must be exactly representable in both dtypes.
inline void put(void* data, std::size_t place, bool bf16, float number) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  const auto half = static_cast<std::uint16_t>(bits >> 16);
  if (bf16)
    std::memcpy(static_cast<char*>(data) + place * 2, &half, sizeof half);
  else
    std::memcpy(static_cast<char*>(data) + place * 4, &bits, sizeof bits);
}

/// Exits with an error if a sum is wrong, because a library that skips work must not be timed.
template <typename Reduce>
void check(int rank, int size, void* data, std::size_t count, bool bf16, Reduce reduce) {
  const auto number = [](std::size_t place) { return static_cast<float>(place % 13); };
  for (std::size_t i = 0; i < count; ++i) put(data, i, bf16, number(i) + static_cast<float>(rank));
  reduce(data, count, bf16);
  const auto width = bf16 ? std::size_t{2} : std::size_t{4};
  for (std::size_t i = 0; i < count; ++i) {
    char want[4];
    put(want, 0, bf16,
        static_cast<float>(size) * number(i) + static_cast<float>(size * (size - 1) / 2));
    if (std::memcmp(want, static_cast<const char*>(data) + i * width, width) == 0) continue;
    std::fprintf(stderr, "all_reduce: wrong sum: rank %d, element %zu of %zu\n", rank, i, count);
    std::_Exit(1);
  }
}

/// Times reduce(data, count, is_bf16) in place at each size, after checking its sums. Rank 0 prints
/// the median over batches in microseconds per call.
template <typename Reduce, typename Barrier>
void measure(int rank, int size_of_group, Reduce reduce, Barrier barrier) {
  using Clock = std::chrono::steady_clock;
  std::string out;
  for (const bool bf16 : {false, true})
    for (const auto& size : kSizes) {
      auto* const data = std::aligned_alloc(4096, size.bytes);
      const auto count = size.bytes / (bf16 ? 2 : 4);
      check(rank, size_of_group, data, count, bf16, reduce);
      std::memset(data, 0, size.bytes);
      const auto batch = [&](int calls) {
        barrier();
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) reduce(data, count, bf16);
        return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
      };
      // Every rank must make the same number of calls, so the ranks agree on a call count that
      // takes about 10 ms.
      batch(1);
      alignas(64) float took[16] = {static_cast<float>(batch(3))};
      reduce(took, 16, false);
      const int calls = std::clamp(static_cast<int>(10'000 / std::max(took[0] / 2, 0.1F)), 2, 2000);
      std::vector<double> times;
      for (int i = 0; i < 7; ++i) times.push_back(batch(calls));
      std::free(data);
      std::nth_element(times.begin(), times.begin() + 3, times.end());
      out += (out.empty() ? "{\"" : ", \"") + std::string(bf16 ? "bf16_" : "fp32_") + size.name +
             "_us\": " + std::to_string(times[3]);
    }
  if (rank == 0) std::printf("%s}\n", out.c_str());
}

}  // namespace all_reduce
