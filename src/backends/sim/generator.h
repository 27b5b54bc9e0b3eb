// Random numbers: a seed and a counter for each device. A launch takes the next counts at once, on
// the host, so the numbers do not depend on when kernels run.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <memory>
#include <optional>

namespace anyaccel::backends::sim {

/// A generator's place at the start of a replay; the graph's launches count from there.
struct ReplayRandom {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// What one launch draws from.
struct RandomDraw {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::shared_ptr<ReplayRandom> replay = {};  ///< in a graph: `offset` counts from there
  /// The host generator that the kernel then uses.
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

  /// Advances by one. The caller holds `mutex_`.
  RandomDraw draw() { return {.seed = seed_, .offset = ++offset_}; }
  /// Advances by `count` for a graph's replay. The caller holds `mutex_`.
  ReplayRandom advance(std::uint64_t count);

 private:
  SimGenerator* clone_impl() const override;
  std::uint64_t seed_ = c10::default_rng_seed_val;
  std::uint64_t offset_ = 0;
};

const at::Generator& default_generator(int device);

/// What the next launch on `device` draws from: `given`, or the device's own generator. While the
/// device's current stream is captured, the graph remembers it. Throws when `given` is another
/// device's.
RandomDraw next_draw(int device, const std::optional<at::Generator>& given);

}  // namespace anyaccel::backends::sim
