// What NVIDIA says about itself without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::cuda {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

/// Counts devices with NVML, which needs no CUDA context and survives fork. Never throws.
ANYACCEL_API sdk::Probe probe_devices() noexcept;

}  // namespace anyaccel::backends::cuda
