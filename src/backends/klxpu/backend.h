// The klxpu backend: a stack that serves torch's CUDA device type with Kunlun chips.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::klxpu {

/// See README.md of this folder for what differs from the generic backend.
class KlxpuBackend final : public sdk::TorchBackend {
 public:
  KlxpuBackend();
};

}  // namespace anyaccel::backends::klxpu
