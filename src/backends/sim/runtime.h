// The simulator's state in this process, initialized by install().
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/sim/device.h"
#include "backends/sim/options.h"

namespace anyaccel::backends::sim {

struct Runtime {
  Options options;
  c10::DeviceType type = c10::DeviceType::PrivateUse1;
  c10::DispatchKey key = c10::DispatchKey::PrivateUse1;
  c10::DispatchKeySet keys;      ///< dispatch keys of a tensor on the device
  std::uint64_t dtype_bits = 0;  ///< bit mask of the dtypes that tensors may have
  std::vector<std::unique_ptr<Device>> devices;

  c10::Device device(int index) const noexcept {
    return {type, static_cast<c10::DeviceIndex>(index)};
  }
};

/// Initialized before the first device exists. Never destroyed. Afterwards, only reset() changes
/// it.
Runtime& runtime() noexcept;

/// See sim::reset() in anyaccel/sim.h. `installed_memory`: bytes per device that install()
/// reserved.
void reset(const Options& options, std::int64_t installed_memory);

/// This thread's current device, initially 0.
int current_device() noexcept;
/// Throws if there is no such device.
void set_current_device(int index);
/// This thread's current stream on a device.
SimStream& current_stream(int device) noexcept;
/// Returns the previous stream.
SimStream& exchange_stream(SimStream& stream) noexcept;

/// Throws if there is no such device.
Device& device_at(int index);
SimStream& stream_of(const c10::Stream& stream);
c10::Stream to_torch(const SimStream& stream);

/// Stops all workers after their queued work. Called when the process exits.
void stop_streams() noexcept;

}  // namespace anyaccel::backends::sim
