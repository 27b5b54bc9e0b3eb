#include "llm/support/host_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <mutex>

#include "anyaccel/error.h"

namespace anyaccel::llm {

HostRandom::HostRandom(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

double HostRandom::uniform() {
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator_);
  const std::lock_guard lock(source->mutex_);
  return static_cast<double>(source->random64() >> 11) * 0x1.0p-53;
}

std::int64_t HostRandom::below(std::int64_t bound) {
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator_);
  const std::lock_guard lock(source->mutex_);
  const auto range = static_cast<std::uint64_t>(bound);
  // A number above the last multiple of `range` would favor small results, so draw again.
  const std::uint64_t limit = UINT64_MAX - (UINT64_MAX % range + 1) % range;
  std::uint64_t draw = source->random64();
  while (draw > limit) draw = source->random64();
  return static_cast<std::int64_t>(draw % range);
}

void HostRandom::fill_normal(at::Tensor& tensor, double mean, double deviation) {
  at::Tensor host = at::empty(tensor.sizes(), at::TensorOptions().dtype(c10::kFloat));
  host.normal_(mean, deviation, generator_);
  tensor.copy_(host);
}

void HostRandom::fill_uniform(at::Tensor& tensor, double low, double high) {
  at::Tensor host = at::empty(tensor.sizes(), at::TensorOptions().dtype(c10::kFloat));
  host.uniform_(low, high, generator_);
  tensor.copy_(host);
}

at::Tensor HostRandom::dropout_mask(at::IntArrayRef shape, double rate) {
  at::Tensor mask = at::empty(shape, at::TensorOptions().dtype(c10::kFloat));
  mask.bernoulli_(1.0 - rate, generator_);
  return mask.mul_(1.0 / (1.0 - rate));
}

at::Tensor HostRandom::state() const { return generator_.get_state(); }

void HostRandom::set_state(const at::Tensor& state) {
  try {
    generator_.set_state(state);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::corrupt, "HostRandom::set_state",
                {.what = std::string("cannot restore the saved generator state: ") + error.what()});
  }
}

}  // namespace anyaccel::llm
