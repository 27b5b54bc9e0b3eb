// The random numbers of dropouts, the host's, for devices: what is drawn follows from seed, row and column alone, so both drop the same.
#pragma once

#include <cstdint>

#include "kernels/common/host_device.h"
#include "kernels/transformer/rows.h"

namespace anyaccel::ops::draws {
#include "kernels/transformer/dropout_isa.h"
}  // namespace anyaccel::ops::draws
