// Random numbers: what `get_accelerator().random()` returns, over host and device generators.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/TensorBase.h>

#include <cstdint>
#include <vector>

#include "anyaccel/export.h"

namespace at {
class Tensor;
}

namespace anyaccel {

class Accelerator;

/// As Python's `torch.random`: the functions that speak of the host generator and all devices at
/// once.
class ANYACCEL_API Random {
 public:
  explicit Random(Accelerator& accelerator) : accelerator_(&accelerator) {}
  /// Seeds the host generator and those of all devices. Any 64-bit value.
  void manual_seed(std::uint64_t seed) const;
  /// Seeds all from the operating system's entropy; returns the seed.
  std::uint64_t seed() const;
  /// The host generator's seed.
  std::uint64_t initial_seed() const;
  /// The host generator's state, a 1-d uint8 CPU tensor.
  at::Tensor get_rng_state() const;
  /// Puts such a state back. `invalid_argument` when it is not a 1-d uint8 CPU tensor.
  void set_rng_state(const at::Tensor& state) const;

 private:
  Accelerator* accelerator_;
};

/// Keeps the states of the host generator and of all devices' and puts them back at the end of the
/// scope. As torch.random.fork_rng.
class ANYACCEL_API RngGuard {
 public:
  explicit RngGuard(Accelerator& accelerator);
  ~RngGuard();
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  Accelerator& accelerator_;
  std::vector<at::TensorBase> states_;
};

}  // namespace anyaccel
