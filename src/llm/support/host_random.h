// The one source of chance: weights, data order, dropout masks and samples are all drawn on the
// host from here, so a seed means the same run on every accelerator.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace anyaccel::llm {

/// torch's Mersenne Twister on the host with a seed of its own; the process's default generator is
/// not touched. Not thread-safe.
class HostRandom {
 public:
  explicit HostRandom(std::uint64_t seed);

  /// A double in [0, 1) with 53 random bits.
  double uniform();
  /// A whole number in [0, bound), every one equally likely. `bound` must be positive.
  std::int64_t below(std::int64_t bound);
  /// Overwrites a tensor of any device with normal draws, made in float32 on the host.
  void fill_normal(at::Tensor& tensor, double mean, double deviation);
  /// A host float32 mask for dropout: 0 with probability `rate`, otherwise 1 / (1 - rate).
  at::Tensor dropout_mask(at::IntArrayRef shape, double rate);

  /// State as a 1-d uint8 host tensor, for checkpoints. set_state throws `corrupt` when it does not
  /// fit.
  at::Tensor state() const;
  void set_state(const at::Tensor& state);

 private:
  at::Generator generator_;
};

}  // namespace anyaccel::llm
