// Random numbers: a seed and a counter for each device. A launch advances the counter immediately,
// on the host, so the numbers do not depend on when the kernel runs.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <memory>
#include <optional>

namespace anyaccel::backends::sim {

/// A generator's seed and offset at the start of a replay. The offsets of the graph's launches are
/// relative to this offset.
struct ReplayRandom {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Identifies the random numbers of one launch.
struct RandomDraw {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::shared_ptr<ReplayRandom> replay = {};  ///< set in a graph; `offset` is then relative to it
  /// The host generator that the kernel uses.
  at::Generator host_generator() const;
};

class SimGenerator final : public c10::GeneratorImpl {
 public:
  explicit SimGenerator(int device);
  void set_current_seed(std::uint64_t seed) override;
  void set_offset(std::uint64_t offset) override;
  std::uint64_t get_offset() const override;
  std::uint64_t current_seed() const override;
  std::uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  /// True for a device's own generator until the program seeds it or sets its state. On a GPU, such
  /// a generator starts with a random seed.
  bool unseeded() const noexcept { return unseeded_; }
  void mark_unseeded() noexcept { unseeded_ = true; }

  /// Advances by one. The caller holds `mutex_`.
  RandomDraw draw() { return {.seed = seed_, .offset = ++offset_}; }
  /// Advances by `count` for a graph's replay. The caller holds `mutex_`.
  ReplayRandom advance(std::uint64_t count);

 private:
  SimGenerator* clone_impl() const override;
  std::uint64_t seed_ = c10::default_rng_seed_val;
  std::uint64_t offset_ = 0;
  bool unseeded_ = false;
};

const at::Generator& default_generator(int device);

/// Returns the random numbers for the next launch on `device`, from `given` or the device's own
/// generator. While a graph captures the device's current stream, the graph records them. Throws if
/// `given` is for another device type.
RandomDraw next_draw(int device, const std::optional<at::Generator>& given);

}  // namespace anyaccel::backends::sim
