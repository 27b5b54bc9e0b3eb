// The random numbers of dropouts, the host's, for devices: what is drawn follows from seed, row and column alone, so both drop the same.
#pragma once

#include <cstdint>

#include "ops/support/on_both.h"
#include "ops/support/transformer/kernels.h"

namespace anyaccel::ops::draws {
#include "ops/support/transformer/dropout_isa.h"
}  // namespace anyaccel::ops::draws
