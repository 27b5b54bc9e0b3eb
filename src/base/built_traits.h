// The traits of all backends in this build, without torch.
#pragma once

#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel {

/// Traits in the order of ANYACCEL_BACKENDS. Thread-safe.
ANYACCEL_API const std::vector<const sdk::Traits*>& built_traits();

/// The backend whose devices are parts of the host, so that ranks compute on the host's cores; null
/// if this build does not have one.
const sdk::Traits* host_traits();

}  // namespace anyaccel
