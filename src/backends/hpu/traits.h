// Traits of the hpu backend, available without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::hpu {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::hpu
