#include "anyaccel/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "core/checks.h"

namespace anyaccel {

namespace {

void check_state(const at::Tensor& state, const char* where) {
  if (state.defined() && state.device().is_cpu() && state.scalar_type() == at::kByte &&
      state.dim() == 1)
    return;
  throw Error(ErrorCode::invalid_argument, where,
              {.what = "not a generator state",
               .got = state.defined() ? "a " + std::to_string(state.dim()) + "-D " +
                                            c10::toString(state.scalar_type()) + " tensor on " +
                                            state.device().str()
                                      : "an undefined tensor",
               .want = "a 1-D uint8 tensor in host memory, from get_rng_state()"});
}

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void put_state(at::Generator generator, const at::Tensor& state, const char* where) {
  check_state(state, where);
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::invalid_argument, where,
                {.what = std::string("the state does not match this generator: ") +
                         error.what_without_backtrace()});
  }
}

void seed(at::Generator generator, std::uint64_t value) {
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(value);
}

at::Generator host() { return at::detail::getDefaultCPUGenerator(); }

}  // namespace

at::Generator Accelerator::default_generator(std::optional<DeviceIndex> device_index) const {
  const auto index = checked(device_index, "default_generator");
  return translated("default_generator", [&] { return backend_->default_generator(index); });
}

at::Tensor Accelerator::get_rng_state(std::optional<DeviceIndex> device_index) const {
  return state_of(default_generator(device_index));
}

void Accelerator::set_rng_state(const at::Tensor& new_state,
                                std::optional<DeviceIndex> device_index) {
  put_state(default_generator(device_index), new_state, "set_rng_state");
}

void Accelerator::manual_seed(std::uint64_t value) { seed(default_generator(), value); }

void Accelerator::manual_seed_all(std::uint64_t value) {
  for (DeviceIndex i = 0; i < device_count(); ++i) seed(default_generator(i), value);
}

std::uint64_t Accelerator::initial_seed() const { return default_generator().current_seed(); }

Random Accelerator::random() { return Random(*this); }

void Random::manual_seed(std::uint64_t value) const {
  anyaccel::seed(host(), value);
  // Seeding must not initialize a device. A device that is initialized later uses this seed.
  accelerator_->lazy_call(
      [accelerator = accelerator_, value] { accelerator->manual_seed_all(value); });
}

std::uint64_t Random::seed() const {
  auto generator = host();
  std::uint64_t value = 0;
  {
    const std::lock_guard lock(generator.mutex());
    value = generator.seed();
  }
  manual_seed(value);
  return value;
}

std::uint64_t Random::initial_seed() const { return host().current_seed(); }

at::Tensor Random::get_rng_state() const { return state_of(host()); }

void Random::set_rng_state(const at::Tensor& state) const {
  put_state(host(), state, "set_rng_state");
}

RngGuard::RngGuard(Accelerator& accelerator) : accelerator_(accelerator) {
  states_.emplace_back(state_of(host()));
  for (DeviceIndex i = 0; i < accelerator.device_count(); ++i)
    states_.emplace_back(accelerator.get_rng_state(i));
}

RngGuard::~RngGuard() {
  try {
    put_state(host(), at::Tensor(states_[0]), "fork_rng");
    for (std::size_t i = 1; i < states_.size(); ++i)
      accelerator_.set_rng_state(at::Tensor(states_[i]), static_cast<DeviceIndex>(i - 1));
  } catch (...) {  // a lost device has no generator whose state could be restored
  }
}

}  // namespace anyaccel
