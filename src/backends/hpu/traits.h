// What Gaudi says about itself without torch.
#pragma once

#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::hpu {

/// Traits of this backend. Thread-safe.
const sdk::Traits& traits();

}  // namespace anyaccel::backends::hpu
