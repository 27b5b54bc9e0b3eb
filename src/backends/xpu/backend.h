// The xpu backend: Intel GPUs, which torch drives itself.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::xpu {

/// See README.md of this folder for what differs from the generic backend.
class XpuBackend final : public sdk::TorchBackend {
 public:
  XpuBackend();
};

}  // namespace anyaccel::backends::xpu
