// Random number generators for the host and all devices.
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

/// The functions of Python's `torch.random`, which apply to the host generator and those of all
/// devices. Returned by `Accelerator::random()`.
class ANYACCEL_API Random {
 public:
  explicit Random(Accelerator& accelerator) : accelerator_(&accelerator) {}
  /// Seed the host generator and those of all devices. Accepts any 64-bit value. Does not
  /// initialize any device; uninitialized devices are seeded when they are initialized.
  void manual_seed(std::uint64_t seed) const;
  /// Seed all generators from the operating system's entropy, and return the seed.
  std::uint64_t seed() const;
  /// Return the seed of the host generator.
  std::uint64_t initial_seed() const;
  /// Return the state of the host generator as a 1-d uint8 CPU tensor.
  at::Tensor get_rng_state() const;
  /// Restore a state from get_rng_state(). Throws `invalid_argument` if it is not a 1-d uint8 CPU
  /// tensor or does not match the generator.
  void set_rng_state(const at::Tensor& state) const;

 private:
  Accelerator* accelerator_;
};

/// Saves the states of the host generator and of all devices' generators, and restores them on
/// destruction, like torch.random.fork_rng.
class ANYACCEL_API RngGuard {
 public:
  /// Save the states of the host generator and of all devices' generators.
  explicit RngGuard(Accelerator& accelerator);
  ~RngGuard();
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  Accelerator& accelerator_;
  std::vector<at::TensorBase> states_;
};

}  // namespace anyaccel
