// What NVIDIA says about itself without torch.
#pragma once

#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::cuda {

/// Traits of this backend. Thread-safe.
const sdk::Traits& traits();

/// Counts devices with NVML, which needs no CUDA context and survives fork. Never throws.
sdk::Probe probe_devices() noexcept;

}  // namespace anyaccel::backends::cuda
