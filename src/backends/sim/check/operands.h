// Converts streams and operands to the types that the detector and the reports use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/sim/check/detector.h"
#include "backends/sim/check/tensors.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim::checking {

inline constexpr int kStreamsOfDevice = 1 + 2 * Device::kPooled;

// Identifiers need not be dense. The size of a clock depends on the highest identifier in use.
inline StreamId id_of(const SimStream& stream) {
  return stream.device().index * kStreamsOfDevice + stream.id();
}

inline std::string device_text(int index) { return runtime().device(index).str(); }

inline std::string stream_text(StreamId id) {
  const int number = id % kStreamsOfDevice;
  return (number == 0 ? "the default stream" : "stream " + std::to_string(number)) + " of " +
         device_text(id / kStreamsOfDevice);
}

inline std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// Returns the memory range of an operand; nullopt if the range is empty.
inline std::optional<Touch> touch_of(const Operand& operand) {
  if (operand.address == nullptr || operand.bytes == 0) return std::nullopt;
  Touch touch{.storage = number(operand.address),
              .bytes = operand.bytes,
              .region = {},
              .written = operand.written,
              .rows = operand.rows};
  if (operand.tensor != nullptr) {
    touch.region = region_of(*operand.tensor);
  } else {
    touch.region.low = touch.storage;
    touch.region.high = touch.storage + operand.bytes;
  }
  if (touch.region.low == touch.region.high) return std::nullopt;
  return touch;
}

}  // namespace anyaccel::backends::sim::checking
