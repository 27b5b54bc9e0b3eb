#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::sim {

ANYACCEL_API const sdk::Traits& traits();

}  // namespace anyaccel::backends::sim
