// Resets the devices of a running simulator to their initial state.
#include "anyaccel/error.h"
#include "backends/sim/allocator.h"
#include "backends/sim/check/checker.h"
#include "backends/sim/generator.h"
#include "backends/sim/observer.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {

namespace {

/// Throws if `options` differ in a setting that a running simulator cannot change.
void check_changes(const Options& options) {
  const auto& now = runtime().options;
  const auto fail = [](const char* what, const std::string& got, const std::string& want) {
    throw Error(ErrorCode::invalid_argument, "sim reset",
                {.what = what, .got = got, .want = want, .hint = "use another process"});
  };
  if (options.devices != now.devices)
    fail("the number of devices cannot change", std::to_string(options.devices),
         std::to_string(now.devices));
  if (options.visible != now.visible)
    throw Error(ErrorCode::invalid_argument, "sim reset",
                {.what = "the visible devices cannot change", .hint = "use another process"});
  if (options.stands_in_for != now.stands_in_for)
    fail("the device type cannot change", options.stands_in_for, now.stands_in_for);
  if (options.check != now.check || options.check_json != now.check_json)
    fail("the checker's options cannot change", options.check, now.check);
}

void check_not_captured(const Device& device) {
  for (const auto& stream : device.streams)
    if (stream->capture() != nullptr)
      throw Error(ErrorCode::invalid_state, "sim reset",
                  {.what = "a graph is being captured on device " + std::to_string(device.index),
                   .hint = "call capture_end() first"});
}

void reset_device(Device& device, const Options& options, const std::vector<Fault>& faults) {
  if (auto* watching = observer()) watching->on_device_synchronize(device.index);
  device.reset(options.latency_us, faults, options.seed);
  device.memory->empty_cache();
  device.memory->set_limit(static_cast<std::size_t>(options.memory));
  device.memory->reset_accumulated_stats();
  device.memory->reset_peak_stats();
  auto generator = default_generator(device.index);
  generator.set_current_seed(c10::default_rng_seed_val);
  generator.get<SimGenerator>()->mark_unseeded();
  exchange_stream(*device.streams[0]);
}

}  // namespace

void reset(const Options& given, std::int64_t installed_memory) {
  auto options = given;
  if (options.check.empty()) options.check = runtime().options.check;
  if (options.check_json.empty()) options.check_json = runtime().options.check_json;
  if (!options.visible) options.visible = runtime().options.visible;
  check(options);
  check_changes(options);
  // The address space is reserved once.
  if (options.memory > installed_memory)
    throw Error(ErrorCode::invalid_argument, "sim reset",
                {.what = "the memory size exceeds the size that the simulator was started with",
                 .got = std::to_string(options.memory) + " bytes",
                 .want = "at most " + std::to_string(installed_memory),
                 .hint = "start the simulator with more memory"});
  const auto& devices = runtime().devices;
  for (const auto& device : devices) check_not_captured(*device);
  // A stream may wait for an event on another device.
  for (const auto& device : devices)
    for (const auto& stream : device->streams) stream->wait(stream->last());
  const auto faults = parse_faults(options.faults);
  for (const auto& device : devices) reset_device(*device, options, faults);
  set_current_device(0);
  runtime().options = options;
  runtime().dtype_bits = dtype_bits(options);
  if (auto* checker = checking::checker()) checker->clear();
}

}  // namespace anyaccel::backends::sim
