// Suite "random": seeds, generator states, and the generators of multiple devices.
#include "support.h"

namespace anyaccel::conformance {

namespace {

/// Restores all generators at the end of a case.
struct Restored {
  explicit Restored(Accelerator& accelerator) : guard(accelerator) {}
  RngGuard guard;
};

}  // namespace

ANYACCEL_CONFORMANCE_CASE(random, default_generator_stays_the_same, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
    expect(
        accelerator.default_generator(i) == accelerator.default_generator(i),
        "default_generator(" + std::to_string(i) + ") returns a different object on the next call");
}

ANYACCEL_CONFORMANCE_CASE(random, generator_belongs_to_its_device, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto device = accelerator.default_generator(i).device();
    expect_equal(device.type(), accelerator.device_type(), "the generator's device type");
    if (accelerator.backend().traits().indexed_names)
      expect_equal(static_cast<int>(device.index()), i, "the generator's device index");
  }
}

ANYACCEL_CONFORMANCE_CASE(random, seed_decides_what_ops_draw, required) {
  const Restored restored(accelerator);
  accelerator.manual_seed(7);
  const auto a = drawn(accelerator), b = drawn(accelerator);
  accelerator.manual_seed(7);
  expect(drawn(accelerator) == a && drawn(accelerator) == b,
         "the same seed gives different numbers");
  expect(a != b, "two draws give the same numbers");
  accelerator.manual_seed(8);
  expect(drawn(accelerator) != a, "a different seed gives the same numbers");
}

ANYACCEL_CONFORMANCE_CASE(random, initial_seed_is_the_seed_given, required) {
  const Restored restored(accelerator);
  for (const std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, ~std::uint64_t{0} - 5}) {
    accelerator.manual_seed(seed);
    expect_equal(accelerator.initial_seed(), seed, "initial_seed()");
  }
}

ANYACCEL_CONFORMANCE_CASE(random, drawing_does_not_change_the_initial_seed, required) {
  const Restored restored(accelerator);
  accelerator.manual_seed(99);
  drawn(accelerator);
  expect_equal(accelerator.initial_seed(), std::uint64_t{99}, "initial_seed() after drawing");
}

ANYACCEL_CONFORMANCE_CASE(random, state_is_a_byte_tensor, required) {
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto state = accelerator.get_rng_state(i);
    expect(state.defined() && state.device().is_cpu() && state.scalar_type() == c10::kByte &&
               state.dim() == 1,
           "get_rng_state() is not a 1-d uint8 tensor in host memory");
    expect(state.numel() > 0, "get_rng_state() is empty");
  }
}

ANYACCEL_CONFORMANCE_CASE(random, state_restores_the_sequence, required) {
  const Restored restored(accelerator);
  accelerator.manual_seed(3);
  drawn(accelerator);
  const auto state = accelerator.get_rng_state();
  const auto a = drawn(accelerator), b = drawn(accelerator);
  accelerator.set_rng_state(state);
  expect(drawn(accelerator) == a, "the first draw after set_rng_state() differs");
  expect(drawn(accelerator) == b, "the second draw after set_rng_state() differs");
}

ANYACCEL_CONFORMANCE_CASE(random, offset_restores_the_sequence, recommended) {
  const Restored restored(accelerator);
  accelerator.manual_seed(5);
  drawn(accelerator);
  auto generator = accelerator.default_generator();
  std::uint64_t offset = 0;
  try {
    offset = generator.get_offset();
  } catch (const c10::Error& error) {
    skip(std::string("the generator has no offset: ") + error.what_without_backtrace());
  }
  const auto wanted = drawn(accelerator);
  generator.set_offset(offset);
  expect_equal(generator.get_offset(), offset, "get_offset() after set_offset()");
  expect(drawn(accelerator) == wanted, "the numbers differ after the offset was restored");
}

ANYACCEL_CONFORMANCE_CASE(random, state_is_a_copy, required) {
  const Restored restored(accelerator);
  const auto state = accelerator.get_rng_state();
  const auto kept = state.clone();
  drawn(accelerator);
  expect(state.equal(kept), "a returned state changes when numbers are drawn");
}

ANYACCEL_CONFORMANCE_CASE(random, state_does_not_follow_the_generator, required) {
  const Restored restored(accelerator);
  const auto state = accelerator.get_rng_state();
  const auto kept = state.clone();
  const auto unchanged = [&](const char* after) {
    expect(state.equal(kept), std::string("a state tensor returned earlier changes ") + after);
  };
  drawn(accelerator);
  const auto later = accelerator.get_rng_state();
  unchanged("when a state is read again");
  accelerator.manual_seed(41);
  static_cast<void>(accelerator.get_rng_state());
  unchanged("when the device is seeded");
  accelerator.set_rng_state(later);
  static_cast<void>(accelerator.get_rng_state());
  unchanged("when another state is set");
  accelerator.set_rng_state(state);
  drawn(accelerator);
  static_cast<void>(accelerator.get_rng_state());
  unchanged("when it is set and numbers are drawn");
}

// torch's DTensor reads a generator state and modifies the offset in the returned tensor.
ANYACCEL_CONFORMANCE_CASE(random, writing_to_a_state_leaves_the_generator_alone, required) {
  const Restored restored(accelerator);
  const auto state = accelerator.get_rng_state();
  const auto kept = state.clone();
  auto given = kept.clone();
  state.zero_();
  expect(accelerator.get_rng_state().equal(kept),
         "zeroing the returned state tensor changes the generator's state");
  accelerator.set_rng_state(given);
  given.zero_();
  expect(accelerator.get_rng_state().equal(kept),
         "zeroing a tensor after set_rng_state() changes the generator's state");
}

ANYACCEL_CONFORMANCE_CASE(random, what_is_no_state_is_refused, required) {
  const Restored restored(accelerator);
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.set_rng_state(at::Tensor()); },
      "an undefined state");
  expect_error(
      ErrorCode::invalid_argument, [&] { accelerator.set_rng_state(host_sequence(16)); },
      "a float state");
  const auto state = accelerator.get_rng_state();
  expect_error(
      ErrorCode::invalid_argument,
      [&] {
        accelerator.set_rng_state(state.reshape({1, -1}));
      },
      "a 2-d state");
}

ANYACCEL_CONFORMANCE_CASE(random, state_of_another_size_is_refused, required) {
  const Restored restored(accelerator);
  const auto state = accelerator.get_rng_state();
  expect_error(
      ErrorCode::invalid_argument,
      [&] { accelerator.set_rng_state(state.narrow(0, 0, 3).clone()); },
      "a state that is too short");
  drawn(accelerator);
}

ANYACCEL_CONFORMANCE_CASE(random, generators_of_devices_are_apart, required) {
  need_separate_devices(accelerator, 2);
  const Restored restored(accelerator);
  expect(accelerator.default_generator(0) != accelerator.default_generator(1),
         "two devices share a generator");
  accelerator.manual_seed_all(5);
  const auto before = accelerator.get_rng_state(0);
  {
    const auto guard = accelerator.device(1);
    drawn(accelerator);
    accelerator.manual_seed(123);
  }
  expect(accelerator.get_rng_state(0).equal(before),
         "drawing on device 1 changes device 0's generator");
}

ANYACCEL_CONFORMANCE_CASE(random, manual_seed_all_seeds_every_device, required) {
  const Restored restored(accelerator);
  accelerator.manual_seed_all(77);
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto guard = accelerator.device(i);
    expect_equal(accelerator.initial_seed(), std::uint64_t{77},
                 "initial_seed() of device " + std::to_string(i));
  }
}

ANYACCEL_CONFORMANCE_CASE(random, seeds_from_entropy_differ, required) {
  const Restored restored(accelerator);
  auto generator = accelerator.default_generator();
  const auto seed = [&] {
    const std::lock_guard lock(generator.mutex());
    return generator.seed();
  };
  const auto a = seed(), b = seed();
  expect(a != b, "seeding from entropy twice gives " + std::to_string(a) + " both times");
  expect_equal(accelerator.initial_seed(), b, "initial_seed() after seeding from entropy");
}

ANYACCEL_CONFORMANCE_CASE(random, random_seeds_host_and_devices, required) {
  const Restored restored(accelerator);
  accelerator.random().manual_seed(11);
  expect_equal(accelerator.random().initial_seed(), std::uint64_t{11}, "the host generator's seed");
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i) {
    const auto guard = accelerator.device(i);
    expect_equal(accelerator.initial_seed(), std::uint64_t{11},
                 "the seed of device " + std::to_string(i));
  }
}

ANYACCEL_CONFORMANCE_CASE(random, random_seed_says_what_it_chose, required) {
  const Restored restored(accelerator);
  const auto seed = accelerator.random().seed();
  expect_equal(accelerator.random().initial_seed(), seed, "the host generator's seed");
  expect_equal(accelerator.initial_seed(), seed, "the device's seed");
}

ANYACCEL_CONFORMANCE_CASE(random, guard_restores_all_generators, required) {
  accelerator.manual_seed_all(21);
  const auto device = accelerator.get_rng_state(), host = accelerator.random().get_rng_state();
  {
    const RngGuard guard(accelerator);
    accelerator.random().manual_seed(5);
    drawn(accelerator);
  }
  expect(accelerator.get_rng_state().equal(device), "the guard did not restore the device's state");
  expect(accelerator.random().get_rng_state().equal(host),
         "the guard did not restore the host's state");
}

ANYACCEL_CONFORMANCE_CASE(random, seeding_the_device_leaves_the_host_alone, required) {
  need_own_memory(accelerator);
  const Restored restored(accelerator);
  const auto host = accelerator.random().get_rng_state();
  accelerator.manual_seed(17);
  drawn(accelerator);
  expect(accelerator.random().get_rng_state().equal(host), "the host generator changed");
}

ANYACCEL_CONFORMANCE_CASE(random, numbers_are_uniform, required) {
  const Restored restored(accelerator);
  accelerator.manual_seed(2024);
  constexpr int kCount = 100'000;
  double sum = 0, squares = 0;
  for (const double x : drawn(accelerator, kCount)) {
    expect(x >= 0 && x < 1, "rand() gave " + std::to_string(x));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kCount, variance = squares / kCount - mean * mean;
  // The estimates may deviate from the exact values by six standard deviations.
  expect(mean > 0.4945 && mean < 0.5055, "the mean of rand() is " + std::to_string(mean));
  expect(variance > 0.0819 && variance < 0.0848,
         "the variance of rand() is " + std::to_string(variance));
}

ANYACCEL_CONFORMANCE_CASE(random, normal_numbers_are_normal, required) {
  const Restored restored(accelerator);
  accelerator.manual_seed(2025);
  constexpr int kCount = 100'000;
  double sum = 0, squares = 0;
  for (const double x : values(filled(accelerator, 0, kCount).normal_())) {
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kCount, variance = squares / kCount - mean * mean;
  expect(mean > -0.019 && mean < 0.019, "the mean of normal_() is " + std::to_string(mean));
  expect(variance > 0.973 && variance < 1.027,
         "the variance of normal_() is " + std::to_string(variance));
}

}  // namespace anyaccel::conformance
