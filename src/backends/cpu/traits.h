// Traits of the cpu backend, available without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::cpu {

/// `probe` is not set, because counting NUMA nodes needs the topology; see devices.h.
ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::cpu
