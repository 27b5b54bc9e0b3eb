#pragma once

#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::sim {

const sdk::Traits& traits();

}  // namespace anyaccel::backends::sim
