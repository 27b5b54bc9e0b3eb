// An upper bound on decoding speed: `bench_read_memory FILE THREADS` only reads a file's bytes from
// memory, repeatedly. Prints GB/s and passes per second. No decoder that reads all weights for each
// token is faster.

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "timing.h"

namespace {

constexpr std::size_t line = 64, ahead = 2048;

/// Uses four accumulators of one cache line each, so that the compiler generates the target's
/// widest vector loads.
std::uint64_t read(const char* begin, const char* end) {
  using Line [[gnu::vector_size(64)]] = std::uint64_t;
  Line a{}, b{}, c{}, d{};
  for (; begin < end; begin += 4 * line) {
    for (std::size_t i = 0; i < 4; ++i) __builtin_prefetch(begin + ahead + i * line);
    const auto* from = reinterpret_cast<const Line*>(begin);
    a ^= from[0];
    b ^= from[1];
    c ^= from[2];
    d ^= from[3];
  }
  const Line all = a ^ b ^ c ^ d;
  return all[0] ^ all[1] ^ all[2] ^ all[3] ^ all[4] ^ all[5] ^ all[6] ^ all[7];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: bench_read_memory FILE THREADS\n");
    return 2;
  }
  const std::size_t threads = std::max(1, std::atoi(argv[2])), unit = 4 * line * threads;
  const std::size_t size = std::filesystem::file_size(argv[1]) / unit * unit;
  constexpr std::size_t page = std::size_t{2} << 20;  // size of a huge page
  const std::size_t room = (size + page - 1) / page * page;
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(page, room)), &std::free);
  if (memory) ::madvise(memory.get(), room, MADV_HUGEPAGE);
  if (!memory || !std::ifstream(argv[1], std::ios::binary)
                      .read(memory.get(), static_cast<std::streamsize>(size))) {
    fprintf(stderr, "bench_read_memory: cannot read %s\n", argv[1]);
    return 1;
  }
  constexpr int times = 9;
  std::vector<double> seconds;
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  const auto work = [&](std::size_t thread) {
    const char* const begin = memory.get() + size / threads * thread;
    for (int i = 0; i < times; ++i) {
      together.arrive_and_wait();
      const auto from = std::chrono::steady_clock::now();
      benchmarks::keep(read(begin, begin + size / threads));
      together.arrive_and_wait();
      if (thread == 0)
        seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  const double best = *std::min_element(seconds.begin(), seconds.end());
  benchmarks::Numbers numbers;
  numbers.add("gb_s", static_cast<double>(size) / best / 1e9);
  numbers.add("passes_s", 1 / best);
  numbers.print();
}
