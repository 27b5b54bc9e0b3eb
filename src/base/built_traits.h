// The traits of all backends in this build. They are available without torch.
#pragma once

#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel {

/// Returns the traits of all backends in this build, in ANYACCEL_BACKENDS order. Thread-safe.
ANYACCEL_API const std::vector<const sdk::Traits*>& built_traits();

/// Returns the traits of the backend that computes on the host CPU. Its devices are parts of the
/// host. Returns null if this build does not include such a backend.
const sdk::Traits* host_traits();

/// Returns the traits of the backend that can stand in for other backends (SIM_STANDS_IN_FOR).
/// Returns null if this build does not include it.
const sdk::Traits* simulator_traits();

}  // namespace anyaccel
