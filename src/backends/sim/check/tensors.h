// Converts tensors to the checker's types.
#pragma once

#include <c10/core/TensorImpl.h>

#include "backends/sim/check/region.h"

namespace anyaccel::backends::sim::checking {

/// The region of a tensor's memory, on the device or the host.
Region region_of(const c10::TensorImpl& tensor);

}  // namespace anyaccel::backends::sim::checking
