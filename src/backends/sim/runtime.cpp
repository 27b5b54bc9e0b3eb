#include "backends/sim/runtime.h"

#include <array>

namespace anyaccel::backends::sim {

namespace {

struct ThreadState {
  int device = 0;
  std::array<SimStream*, 16> streams{};
};

ThreadState& thread_state() noexcept {
  static thread_local ThreadState state;
  return state;
}

}  // namespace

Runtime& runtime() noexcept {
  // Never destroyed, because tensors may outlive static destruction.
  static auto* instance = new Runtime;
  return *instance;
}

int current_device() noexcept { return thread_state().device; }

Device& device_at(int index) {
  auto& devices = runtime().devices;
  TORCH_CHECK(index >= 0 && static_cast<std::size_t>(index) < devices.size(),
              "[sim] device index out of range; got ", index, ", want 0 to ", devices.size() - 1);
  return *devices[static_cast<std::size_t>(index)];
}

void set_current_device(int index) { thread_state().device = device_at(index).index; }

SimStream& current_stream(int device) noexcept {
  auto*& stream = thread_state().streams[static_cast<std::size_t>(device)];
  if (stream == nullptr)
    stream = runtime().devices[static_cast<std::size_t>(device)]->streams[0].get();
  return *stream;
}

SimStream& exchange_stream(SimStream& stream) noexcept {
  auto& former = current_stream(stream.device().index);
  thread_state().streams[static_cast<std::size_t>(stream.device().index)] = &stream;
  return former;
}

SimStream& stream_of(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == runtime().type,
              "[sim] the stream belongs to another device type: ", stream);
  auto& device = device_at(stream.device_index() < 0 ? current_device() : stream.device_index());
  TORCH_CHECK(stream.id() >= 0 && static_cast<std::size_t>(stream.id()) < device.streams.size(),
              "[sim] the stream does not belong to this device: ", stream);
  return *device.streams[static_cast<std::size_t>(stream.id())];
}

c10::Stream to_torch(const SimStream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, runtime().device(stream.device().index), stream.id());
}

void stop_streams() noexcept {
  // A stream may wait for an event on another device, so all streams must finish their work before
  // the first thread is joined.
  for (const auto& device : runtime().devices)
    for (const auto& stream : device->streams) stream->wait(stream->last());
  for (const auto& device : runtime().devices)
    for (const auto& stream : device->streams) stream->stop();
}

}  // namespace anyaccel::backends::sim
