// The xpu backend: Intel GPUs through torch's own XPU type.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::xpu {

/// README.md describes the differences from the generic backend.
class XpuBackend final : public sdk::TorchBackend {
 public:
  XpuBackend();
};

}  // namespace anyaccel::backends::xpu
