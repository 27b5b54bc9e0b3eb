// Registers the simulated device with torch, once per process.
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <list>
#include <mutex>

#include "anyaccel/error.h"
#include "backends/sim/allocator.h"
#include "backends/sim/check/checker.h"
#include "backends/sim/counts.h"
#include "backends/sim/graph.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/pinned.h"
#include "backends/sim/register.h"
#include "base/untrusted_text.h"
#include "core/device_type.h"

namespace anyaccel::backends::sim {

namespace {

struct State {
  std::mutex mutex;
  std::atomic<bool> installed{false};
  bool failed = false;
  Options options;  ///< options of the successful install()
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

/// True if this LibTorch has devices of another accelerator type. PrivateUse1 does not count,
/// because torch allows it in addition to another type.
bool another_accelerator(c10::DeviceType type) {
  for (int i = 0; i < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++i) {
    const auto other = static_cast<c10::DeviceType>(i);
    if (other != type && other != c10::DeviceType::PrivateUse1 &&
        at::accelerator::isAccelerator(other) && c10::impl::hasDeviceGuardImpl(other))
      return true;
  }
  return false;
}

/// Returns the device type with that name. If there is none, gives the name to PrivateUse1 and
/// returns it.
c10::DeviceType take_type(const std::string& name) {
  const auto known = find_device_type(name);
  if (known && c10::impl::hasDeviceGuardImpl(*known))
    throw Error(ErrorCode::unavailable, "sim",
                {.what = "the LibTorch loaded in this process already has devices of this type, so "
                         "the simulator cannot stand in for it",
                 .got = quoted_text(name),
                 .hint = "use a CPU-only LibTorch, or another SIM_STANDS_IN_FOR"});
  if (known == c10::DeviceType::PrivateUse1) return *known;
  if (known) need_hooks(*known);
  if (known && another_accelerator(*known))
    throw Error(
        ErrorCode::unavailable, "sim",
        {.what = "the LibTorch loaded in this process was built for another accelerator, and "
                 "autograd supports only one",
         .got = quoted_text(name),
         .hint = "use a CPU-only LibTorch, or a name that is not one of torch's types"});
  if (known) return *known;
  try {
    c10::register_privateuse1_backend(name);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::unavailable, "sim",
                {.what = "torch's PrivateUse1 type already has another name: " +
                         std::string(error.what_without_backtrace()),
                 .got = quoted_text(name),
                 .hint = "use another process; PrivateUse1 can be renamed only once per process"});
  }
  return c10::DeviceType::PrivateUse1;
}

/// Sets the visible devices to those that `options` selects.
void choose_devices(const Options& options) {
  // Devices are never destroyed, because the fork handlers lock their mutexes, even at exit.
  static auto* hidden = new std::vector<std::unique_ptr<Device>>;
  auto& target = runtime();
  auto& devices = target.devices;
  const auto count = static_cast<std::size_t>(visible_count(options));
  const auto memory = static_cast<std::size_t>(options.memory);
  const auto faults = parse_faults(options.faults);
  target.options.visible = options.visible;
  for (; devices.size() > count; devices.pop_back()) hidden->push_back(std::move(devices.back()));
  while (devices.size() < count) {
    devices.push_back(
        std::make_unique<Device>(static_cast<int>(devices.size()), options.latency_us));
    devices.back()->memory = std::make_unique<DeviceMemory>(
        *devices.back(), memory, /*zones=*/!target.options.check.empty());
    devices.back()->keep_locks_free_in_forks();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int physical = options.visible ? (*options.visible)[i] : static_cast<int>(i);
    devices[i]->physical = physical;
    devices[i]->faults = FaultCounter(faults, physical, options.seed);
  }
}

bool any_device_used() {
  for (const auto& device : runtime().devices) {
    if (device->memory->reserved() != 0) return true;
    for (const auto& stream : device->streams)
      if (stream->last() != 0) return true;
  }
  return false;
}

void fill_runtime(const Options& options) {
  auto& target = runtime();
  target.type = take_type(device_type_name(options));
  target.options = options;
  target.key = c10::computeDispatchKey(std::nullopt, std::nullopt, c10::Device(target.type));
  target.keys = c10::DispatchKeySet(target.key);
  target.dtype_bits = dtype_bits(options);
  // Reserve twice the memory size: address space is cheap, and segments of different sizes fragment
  // it. The checker's zones can double the addresses of a segment.
  const auto memory = static_cast<std::size_t>(options.memory) * (options.check.empty() ? 1 : 2);
  constexpr std::size_t unit = 256 << 20;
  reserve_memory(options.devices, (2 * memory + unit - 1) / unit * unit);
  choose_devices(options);
}

void register_all() {
  const auto type = runtime().type;
  register_hooks();
  c10::SetAllocator(type, &allocator(), 255);
  at::setHostAllocator(type, &pinned_allocator(), 255);
  register_guard();
  register_graphs();
  make_library("_", runtime().key).fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  if (runtime().key == c10::DispatchKey::PrivateUse1)
    make_library("_", c10::DispatchKey::AutogradPrivateUse1)
        .fallback(torch::CppFunction::makeFallthrough());
  register_memory_kernels();
  register_copy_kernels();
  register_layouts();
  register_special_kernels();
  register_rnn_kernels();
  register_autocast();
  register_sleep();
  register_ipc();
  register_profiler();
  register_kineto();
}

}  // namespace

torch::Library& make_library(const char* name_space, c10::DispatchKey key) {
  static auto* all = new std::list<torch::Library>;
  all->emplace_back(torch::Library::IMPL, name_space, key, __FILE__,
                    static_cast<std::uint32_t>(__LINE__));
  return all->back();
}

torch::Library& device_library() {
  static auto& library = make_library("aten", runtime().key);
  return library;
}

}  // namespace anyaccel::backends::sim

namespace anyaccel::sim {

namespace {

std::vector<Problem> as_public(const std::vector<backends::sim::checking::Problem>& found) {
  std::vector<Problem> all;
  for (const auto& each : found)
    all.push_back({.kind = name(each.kind),
                   .op = each.now.op,
                   .stream = each.now.stream,
                   .shape = each.now.shape,
                   .message = text(each),
                   .what = each.what,
                   .remedy = remedy(each.kind),
                   .stack = each.now.stack});
  return all;
}

}  // namespace

std::vector<Problem> problems() {
  const auto* checker = backends::sim::checking::checker();
  return checker == nullptr ? std::vector<Problem>() : as_public(checker->reporter().problems());
}

std::vector<Problem> notes() {
  const auto* checker = backends::sim::checking::checker();
  return checker == nullptr ? std::vector<Problem>() : as_public(checker->reporter().notes());
}

bool installed() noexcept {
  return backends::sim::state().installed.load(std::memory_order_acquire);
}

void install(const Options& given) {
  using namespace backends::sim;
  auto options = given;
  take_checks_from_environment(options);
  check(options);
  auto& now = state();
  const std::lock_guard lock(now.mutex);
  if (now.installed) {
    auto expected = now.options;
    expected.visible = options.visible;
    if (expected == options) {
      // As on CUDA, changing the visible devices after the first use of a device has no effect. The
      // other options come from the last reset().
      auto chosen = runtime().options;
      if (chosen.visible != options.visible && !any_device_used()) {
        chosen.visible = options.visible;
        choose_devices(chosen);
      }
      return;
    }
    throw Error(ErrorCode::invalid_state, "sim",
                {.what = "the simulator is already running in this process with different options",
                 .hint = "set the options before the first use of the device"});
  }
  if (now.failed)
    throw Error(ErrorCode::invalid_state, "sim",
                {.what = "the simulator already failed to start in this process"});
  now.failed = true;
  fill_runtime(options);
  register_all();
  checking::start_checks();
  // Workers must exit before the state of torch's kernels is destroyed.
  std::atexit([] {
    stop_streams();
    write_counts();
  });
  now.failed = false;
  now.options = options;
  now.installed.store(true, std::memory_order_release);
}

void reset(const Options& options) {
  auto& now = backends::sim::state();
  const std::lock_guard lock(now.mutex);
  if (!now.installed)
    throw Error(ErrorCode::invalid_state, "sim reset",
                {.what = "the simulator is not running", .hint = "call sim::install() first"});
  backends::sim::reset(options, now.options.memory);
}

}  // namespace anyaccel::sim
