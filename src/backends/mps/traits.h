// What Apple GPUs says about itself without torch.
#pragma once

#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::mps {

/// Traits of this backend. Thread-safe.
const sdk::Traits& traits();

}  // namespace anyaccel::backends::mps
