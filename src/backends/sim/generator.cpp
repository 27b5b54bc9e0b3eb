#include "backends/sim/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>

#include <cstring>

#include "backends/sim/graph.h"
#include "backends/sim/hash.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

namespace {

constexpr std::size_t kStateBytes = 16;

bool unseeded(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get<SimGenerator>()->unseeded();
}

}  // namespace

at::Generator RandomDraw::host_generator() const {
  if (replay) return at::detail::createCPUGenerator(mix(replay->seed, replay->offset + offset));
  return at::detail::createCPUGenerator(mix(seed, offset));
}

SimGenerator::SimGenerator(int device)
    : GeneratorImpl(runtime().device(device), c10::DispatchKeySet(runtime().key)) {}

void SimGenerator::set_current_seed(std::uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
  unseeded_ = false;
}
void SimGenerator::set_offset(std::uint64_t offset) { offset_ = offset; }
std::uint64_t SimGenerator::get_offset() const { return offset_; }
std::uint64_t SimGenerator::current_seed() const { return seed_; }

std::uint64_t SimGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void SimGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<std::int64_t>(kStateBytes),
              "[sim] wrong size of the generator state; got ", state.numel(), " bytes, want ",
              kStateBytes);
  const auto* bytes = static_cast<const char*>(state.data());
  std::memcpy(&seed_, bytes, sizeof seed_);
  std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
  unseeded_ = false;
}

c10::intrusive_ptr<c10::TensorImpl> SimGenerator::get_state() const {
  const auto state = at::detail::empty_cpu({static_cast<std::int64_t>(kStateBytes)}, c10::kByte);
  auto* bytes = static_cast<char*>(state.mutable_data_ptr());
  std::memcpy(bytes, &seed_, sizeof seed_);
  std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

void SimGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  const auto* other = dynamic_cast<const SimGenerator*>(state.get());
  TORCH_CHECK(other != nullptr, "[sim] the state belongs to another device's generator");
  seed_ = other->seed_;
  offset_ = other->offset_;
  unseeded_ = false;
}

c10::intrusive_ptr<c10::GeneratorImpl> SimGenerator::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(clone_impl());
}

ReplayRandom SimGenerator::advance(std::uint64_t count) {
  const ReplayRandom start{.seed = seed_, .offset = offset_};
  offset_ += count;
  return start;
}

SimGenerator* SimGenerator::clone_impl() const {
  auto* copy = new SimGenerator(device_.index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(int device) {
  static auto* all = [] {
    auto* list = new std::vector<at::Generator>;
    // Devices may become visible later.
    for (int i = 0; i < runtime().options.devices; ++i) {
      list->push_back(at::make_generator<SimGenerator>(i));
      list->back().get<SimGenerator>()->mark_unseeded();
    }
    return list;
  }();
  return (*all)[static_cast<std::size_t>(device_at(device < 0 ? current_device() : device).index)];
}

RandomDraw next_draw(int device, const std::optional<at::Generator>& given) {
  at::Generator generator = given && given->defined() ? *given : default_generator(device);
  TORCH_CHECK(generator.device().type() == runtime().type, "Expected a '", runtime().type,
              "' device type for generator but found '", generator.device().type(), "'");
  auto& stream = current_stream(device);
  if (auto* watching = observer(); watching != nullptr && unseeded(generator))
    watching->on_unseeded_draw(stream);
  if (auto* capture = stream.capture()) return capture->draw(generator);
  const std::lock_guard lock(generator.mutex());
  return generator.get<SimGenerator>()->draw();
}

}  // namespace anyaccel::backends::sim
