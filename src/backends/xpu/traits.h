// Traits of the xpu backend, available without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::xpu {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::xpu
