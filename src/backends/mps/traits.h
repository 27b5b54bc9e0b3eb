// Traits of the mps backend, available without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::mps {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::mps
