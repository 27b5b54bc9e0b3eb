// Timing helpers for short calls, shared by the programs in this folder.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace benchmarks {

/// Prevents the compiler from optimizing `value` away.
template <typename T>
inline void keep(T&& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// Returns the nanoseconds per call of `function`: the median over `batches` batches of about
/// `batch_ms` each.
template <typename Function>
double nanoseconds(Function function, int batches = 15, double batch_ms = 4) {
  using Clock = std::chrono::steady_clock;
  const auto batch = [&](long calls) {
    const auto start = Clock::now();
    for (long i = 0; i < calls; ++i) function();
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  long calls = 16;
  while (batch(calls) < batch_ms * 1e6) calls *= 2;
  std::vector<double> times;
  for (int i = 0; i < batches; ++i) times.push_back(batch(calls) / static_cast<double>(calls));
  std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
  return times[static_cast<std::size_t>(batches / 2)];
}

/// Collects numbers and prints them as the JSON object that benchmarks/run reads.
class Numbers {
 public:
  void add(const std::string& name, double value) {
    text_ += (text_.empty() ? "{\"" : ", \"") + name + "\": " + std::to_string(value);
  }
  void print() const { std::printf("%s}\n", text_.empty() ? "{" : text_.c_str()); }

 private:
  std::string text_;
};

}  // namespace benchmarks
