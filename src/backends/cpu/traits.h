// What the cpu backend says about itself; needs no torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::cpu {

/// `probe` is left out: counting NUMA nodes needs the topology, see devices.h.
ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::cpu
