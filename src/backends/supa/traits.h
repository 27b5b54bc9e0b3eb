// Traits of the supa backend, available without torch.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::supa {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::supa
