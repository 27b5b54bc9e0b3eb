// Random numbers for weights, data order, dropout masks and sampling. All are drawn on the host, so
// the same seed produces the same numbers on every accelerator.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace anyaccel::llm {

/// torch's Mersenne Twister on the host, with its own seed. Does not use the process's default
/// generator. Not thread-safe.
class HostRandom {
 public:
  explicit HostRandom(std::uint64_t seed);

  /// Returns a double in [0, 1) with 53 random bits.
  double uniform();
  /// Returns a uniformly distributed integer in [0, bound). `bound` must be positive.
  std::int64_t below(std::int64_t bound);
  /// Fills a tensor on any device with normally distributed values, drawn in float32 on the host.
  void fill_normal(at::Tensor& tensor, double mean, double deviation);
  /// Fills a tensor on any device with values uniformly distributed in [low, high), drawn in
  /// float32 on the host.
  void fill_uniform(at::Tensor& tensor, double low, double high);
  /// Returns a float32 host mask for dropout: 0 with probability `rate`, otherwise 1 / (1 - rate).
  at::Tensor dropout_mask(at::IntArrayRef shape, double rate);

  /// Generator state for checkpoints: a 1-d uint8 host tensor. set_state() throws `corrupt` if
  /// torch rejects the state.
  at::Tensor state() const;
  void set_state(const at::Tensor& state);

 private:
  at::Generator generator_;
};

}  // namespace anyaccel::llm
