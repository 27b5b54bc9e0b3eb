// Tensors in the checker's terms.
#pragma once

#include <c10/core/TensorImpl.h>

#include "backends/sim/check/region.h"

namespace anyaccel::backends::sim::checking {

/// Addresses are those of the tensor's memory, of device or host.
Region region_of(const c10::TensorImpl& tensor);

}  // namespace anyaccel::backends::sim::checking
