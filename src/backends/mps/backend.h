// The mps backend: Apple GPUs through torch's own MPS type.
#pragma once

#include <atomic>
#include <cstdint>

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::mps {

/// README.md describes the differences from the generic backend.
class MpsBackend final : public sdk::TorchBackend {
 public:
  MpsBackend();
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
  MemoryStats memory_stats(DeviceIndex index) const override;
  MemoryInfo memory_info(DeviceIndex index) const override;
  void reset_peak_memory_stats(DeviceIndex index) override;
  void empty_cache() override;

 private:
  // Metal does not track peaks. These are the highest values queried since the last reset.
  mutable std::atomic<std::int64_t> allocated_peak_{0};
  mutable std::atomic<std::int64_t> reserved_peak_{0};
};

}  // namespace anyaccel::backends::mps
