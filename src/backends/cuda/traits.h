// Traits of the cuda backend, available without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::cuda {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

/// Counts devices with NVML, which does not need a CUDA context, so that fork() stays safe. Never
/// throws.
ANYACCEL_API sdk::Probe probe_devices() noexcept;

}  // namespace anyaccel::backends::cuda
